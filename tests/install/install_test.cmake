# SPDX-License-Identifier: Apache-2.0
#
# Run by CTest (see CMakeLists.txt). Proves that the installed tree is complete, may be moved, and serves
# users of find_package() and of pkg-config; every program runs on the simulated GPU.

function(need)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    list(JOIN ARGV " " line)
    message(FATAL_ERROR "${line}\nended with ${failed}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(need_text text)
  if(NOT output MATCHES "${text}")
    message(FATAL_ERROR "expected '${text}' in:\n${output}")
  endif()
endfunction()

set(ENV{FAIRLEAD_DEVICE} sim)
set(ENV{FAIRLEAD_SIM_DEVICES} 2)
unset(ENV{LD_LIBRARY_PATH})
unset(ENV{FAIRLEAD_HOME})

file(REMOVE_RECURSE ${WORK})
need(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${WORK}/moved)
set(prefix ${WORK}/moved)
need(${BUILD_SOURCE}/packaging/check-runpaths --origin ${prefix})
foreach(file IN ITEMS share/man/man1/fairlead.1 share/man/man1/fairlead-run.1 share/man/man7/fairlead-options.7
        share/bash-completion/completions/fairlead include/fairlead/device.h include/fairlead/kernel.h
        share/fairlead/openmpi/cuda/bin/ompi_info share/fairlead/openmpi/rocm/include/mpi-ext.h
        share/fairlead/modulefiles/fairlead/${VERSION} share/fairlead/modulefiles/fairlead/${VERSION}.lua)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()

# --- Links between the installed pages lead somewhere
set(pages ${prefix}/${DOCDIR})
file(GLOB_RECURSE all RELATIVE ${pages} ${pages}/*.md)
foreach(page IN LISTS all)
  file(READ ${pages}/${page} text)
  string(REPLACE "](" "<link " text "${text}") # brackets have a meaning in CMake's lists
  string(REGEX MATCHALL "<link [^)#:]+" links "${text}")
  get_filename_component(folder ${pages}/${page} DIRECTORY)
  foreach(link IN LISTS links)
    string(REPLACE "<link " "" link "${link}")
    if(NOT link MATCHES "^https?$" AND NOT EXISTS ${folder}/${link})
      message(FATAL_ERROR "the installed ${page} links to ${link}, which is not installed")
    endif()
  endforeach()
endforeach()

# --- The loader finds the device library by a name that changes when its interface may
if(NOT EXISTS ${prefix}/${LIBDIR}/libfairlead-device.so.${VERSION})
  message(FATAL_ERROR "libfairlead-device.so.${VERSION} was not installed")
endif()

# --- The modules set the paths of the moved tree, in every module system that is here
set(ENV{MODULEPATH} ${prefix}/share/fairlead/modulefiles)
file(GLOB system /usr/lib/*-linux-gnu/modulecmd.tcl)
foreach(system IN ITEMS "$ENV{MODULES_CMD}" "$ENV{LMOD_CMD}" ${system} /usr/share/lmod/lmod/libexec/lmod)
  if(EXISTS "${system}")
    need(${system} bash load fairlead)
    need_text("PATH=[^:]*${prefix}/${BINDIR}:")
    need_text("FAIRLEAD_HOME=[^/]*${prefix}[^/]")
  endif()
endforeach()
unset(ENV{MODULEPATH})

# --- find_package, and a kernel of one's own
need(${CMAKE_COMMAND} -S ${PROJECT} -B ${WORK}/project -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${prefix}
     -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DMPI_C_COMPILER=${MPICC})
need(${CMAKE_COMMAND} --build ${WORK}/project)
need(${WORK}/project/kernel)
need_text("1000 elements were scaled on sim")

# --- pkg-config
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  foreach(abi IN ITEMS openmpi mpich abi)
    if(EXISTS ${prefix}/${LIBDIR}/libfairlead-${abi}.so)
      need(${PKG_CONFIG} --variable=preload fairlead-${abi})
      string(STRIP "${output}" output)
      if(output MATCHES "//" OR NOT EXISTS ${output})
        message(FATAL_ERROR "the variable `preload` of fairlead-${abi} is ${output}")
      endif()
    endif()
  endforeach()
  need(${PKG_CONFIG} --cflags --libs fairlead-device)
  separate_arguments(flags UNIX_COMMAND "${output}")
  need(${CC} ${PROJECT}/memory.c ${flags} -Wl,-rpath,${prefix}/${LIBDIR} -o ${WORK}/memory)
  need(${WORK}/memory)
  need_text("device memory works on sim")
  # Built without the -rpath hint: the tool names the library and where it is.
  need(${PKG_CONFIG} --cflags --libs fairlead-device)
  separate_arguments(flags UNIX_COMMAND "${output}")
  need(${MPICC} ${PROJECT}/ring.c ${flags} -o ${WORK}/ring_without_rpath)
  foreach(command IN ITEMS run exec)
    set(ranks)
    if(command STREQUAL "run")
      set(ranks -n 2)
    endif()
    execute_process(COMMAND ${prefix}/${BINDIR}/fairlead ${command} ${ranks} ${WORK}/ring_without_rpath
                    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT code EQUAL 2)
      message(FATAL_ERROR "fairlead ${command} ended with ${code}, not 2:\n${output}")
    endif()
    need_text("libfairlead-device.so[.0-9]* is not found; set LD_LIBRARY_PATH or link with -Wl,-rpath,${prefix}/")
  endforeach()
  need(${PKG_CONFIG} --variable=preload fairlead-${ABI})
  string(STRIP "${output}" preload)
  if(NOT EXISTS "${preload}")
    message(FATAL_ERROR "pkg-config names ${preload}, which does not exist")
  endif()
endif()

# --- The tool: an ordinary MPI program preloaded, one that is linked with Fairlead, and a benchmark
set(fairlead ${prefix}/${BINDIR}/fairlead)
need(${fairlead} run -n 2 ${WORK}/project/ring)
need_text("ring of 2: correct")
need(${fairlead} run --no-preload -n 2 ${WORK}/project/ring_linked)
need_text("ring of 2: correct")
need(${fairlead} bench latency -n 2 --mpi ${ABI} -m 8:64 -i 10 -c)
need_text("all bytes are right")

# --- What is uninstalled is gone, with Fairlead's own folders, and nothing else
file(GLOB_RECURSE installed ${prefix}/*)
list(REMOVE_ITEM installed ${prefix}/${LIBDIR}/pkgconfig/fairlead-device.pc)
list(JOIN installed "\n" manifest)
file(WRITE ${WORK}/manifest.txt "${manifest}")
need(${CMAKE_COMMAND} -DMANIFEST=${WORK}/manifest.txt -P ${BUILD_SOURCE}/cmake/uninstall.cmake)
file(GLOB_RECURSE left ${prefix}/*)
if(NOT left STREQUAL "${prefix}/${LIBDIR}/pkgconfig/fairlead-device.pc")
  message(FATAL_ERROR "uninstall left ${left}")
endif()
foreach(folder IN ITEMS include/fairlead share/fairlead ${DOCDIR} libexec/fairlead)
  if(EXISTS ${prefix}/${folder})
    message(FATAL_ERROR "uninstall left the folder ${folder}")
  endif()
endforeach()
