# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` puts where. An installed tree may be moved: programs and libraries find each other by
# relative RPATHs, the CMake package and the pkg-config files by their own place.
#
#   find_package(fairlead)        fairlead::device, fairlead::<abi>, fairlead_add_device_code()
#   pkg-config                    fairlead-device, fairlead-<abi> (variable `preload`: the library to preload)
#
# The tools install themselves (tools/CMakeLists.txt).

include(CMakePackageConfigHelpers)
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fairlead)

set(_libraries fairlead-device)
foreach(abi IN LISTS FAIRLEAD_MPIS)
  list(APPEND _libraries fairlead-${abi})
endforeach()
install(TARGETS ${_libraries} EXPORT fairlead LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/fairlead DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# --- CMake package
install(EXPORT fairlead NAMESPACE fairlead:: FILE fairleadTargets.cmake DESTINATION ${_package_dir})
configure_package_config_file(cmake/fairleadConfig.cmake.in ${PROJECT_BINARY_DIR}/fairleadConfig.cmake
  INSTALL_DESTINATION ${_package_dir} NO_SET_AND_CHECK_MACRO)
# docs/reference/stability.md promises this.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fairleadConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fairleadConfig.cmake ${PROJECT_BINARY_DIR}/fairleadConfigVersion.cmake
              cmake/DeviceCode.cmake src/device/cuda_hip/gpu_targets.def
        DESTINATION ${_package_dir})

# --- pkg-config
# The path from the .pc files up to the prefix; distributions have lib folders of several levels.
file(RELATIVE_PATH _pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" _pc_up ${_pc_up})
foreach(library IN LISTS _libraries)
  set(_pc_name ${library})
  set(_pc_variables "")
  set(_pc_description "Portable device memory and kernels for CUDA, ROCm and simulated GPUs")
  if(NOT library STREQUAL "fairlead-device")
    string(REPLACE "fairlead-" "" abi ${library})
    set(_pc_variables "preload=\${libdir}/lib${library}.so")
    set(_pc_description "Makes MPI GPU-aware (MPI ABI ${abi}); preload it, or link it before the MPI library")
  endif()
  configure_file(cmake/fairlead.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# --- Environment modules: `module use <prefix>/share/fairlead/modulefiles`
set(_modules ${CMAKE_INSTALL_DATADIR}/fairlead/modulefiles)
file(RELATIVE_PATH module_up /prefix/${_modules}/fairlead /prefix)
foreach(form IN ITEMS "" .lua)
  set(_module ${PROJECT_BINARY_DIR}/modulefiles/${PROJECT_VERSION}${form})
  configure_file(packaging/modulefile/fairlead${form}.in ${_module} @ONLY)
  install(FILES ${_module} DESTINATION ${_modules}/fairlead)
endforeach()

# --- The comparison with peers: needs Python 3.9, no build
install(PROGRAMS bench/compare DESTINATION libexec/fairlead)

# --- Licenses of the libraries that were compiled in, where a package is made of this tree
set(FAIRLEAD_LICENSES "" CACHE PATH "Folder of license texts to install")
if(FAIRLEAD_LICENSES)
  install(DIRECTORY ${FAIRLEAD_LICENSES}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fairlead/licenses)
endif()

# --- Documentation
install(FILES README.md CONTRIBUTING.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The sources that the tutorial explains and compiles. Their build is this project's.
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)

# --- cmake --build build --target uninstall
if(NOT SKBUILD AND NOT TARGET uninstall)
  add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
    VERBATIM)
endif()
