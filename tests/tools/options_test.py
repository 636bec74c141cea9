# SPDX-License-Identifier: Apache-2.0
"""`fairlead options` tells every option's value and origin; help and version are there for every command."""

import json
import unittest

from tool import ToolTest, on_terminal

COMMANDS = [["run"], ["exec"], ["matrix"], ["doctor"], ["plot"], ["info"], ["options"], ["bench", "latency"], ["bench", "bw"], ["bench", "bibw"], ["bench", "pairs"],
            ["bench", "all_pairs"], ["bench", "enqueue"], ["bench", "pack"], ["bench", "halo"], ["bench", "datatype"],
            ["bench", "put_latency"], ["bench", "put_bw"], ["bench", "put_bibw"], ["bench", "fop_latency"], ["bench", "put_halo"],
            ["bench", "file"], ["bench", "copy"], ["bench", "host_overhead"]]


class Options(ToolTest):
    def test_json_has_value_and_origin(self):
        options = {o["variable"]: o for o in json.loads(
            self.succeeds("options", "--all", "--json", FAIRLEAD_EAGER_LIMIT="2m").stdout)}
        self.assertEqual(options["FAIRLEAD_EAGER_LIMIT"]["value"], "2m")
        self.assertEqual(options["FAIRLEAD_EAGER_LIMIT"]["origin"], "FAIRLEAD_EAGER_LIMIT")
        self.assertEqual(options["FAIRLEAD_IPC"]["origin"], "default")
        self.assertEqual(options["FAIRLEAD_IPC"]["default"], "on")

    def test_table_and_page_list_the_same(self):
        options = json.loads(self.succeeds("options", "--all", "--json").stdout)
        names = [o["variable"] for o in options]
        table = self.succeeds("options", "-a").stdout.splitlines()
        self.assertTrue(table[0].startswith("# variable"))
        self.assertEqual([line.split()[0] for line in table[2:] if not line.startswith(" ")], names)
        self.assertLessEqual(max(map(len, table)), 80)
        page = self.succeeds("options", "--markdown").stdout.splitlines()
        by_class = [o["variable"] for c in ("user", "tuning", "development") for o in options if o["class"] == c]
        self.assertEqual([line.split("`")[1] for line in page if line.startswith("| `")], by_class)
        self.assertEqual(len(by_class), len(names))

    def test_classes(self):
        def shown(*words, **variables):
            return [o["variable"] for o in json.loads(self.succeeds("options", "--json", *words, FAIRLEAD_DEVICE="auto",
                                                                     **variables).stdout)]
        users = [f"FAIRLEAD_{name}" for name in ("ENABLED", "DEVICE", "LOG", "STATS", "TRACE")]
        self.assertEqual(shown(), users)
        self.assertEqual(shown(FAIRLEAD_SIM_DEVICES="2", FAIRLEAD_IPC="on"), [*users, "FAIRLEAD_IPC", "FAIRLEAD_SIM_DEVICES"])
        tuning, development = shown("--tuning"), shown("--development")
        self.assertIn("FAIRLEAD_EAGER_LIMIT", tuning)
        self.assertIn("FAIRLEAD_NODES", development)
        self.assertTrue(all(f"FAIRLEAD_SIM_{name}" in development for name in ("DEVICES", "LIMITS")))
        self.assertCountEqual(users + tuning + development, shown("--all"))
        self.assertCountEqual(shown("--tuning", "--development"), tuning + development)

    def test_some_only(self):
        for form in [], ["--json"]:
            text = self.succeeds("options", *form, "FAIRLEAD_IPC", "FAIRLEAD_BAR").stdout
            self.assertEqual([name in text for name in ("FAIRLEAD_IPC", "FAIRLEAD_BAR", "FAIRLEAD_LOG")],
                             [True, True, False])
        self.refuses("options", "FAIRLEAD_IPX", says=["no option FAIRLEAD_IPX", "did you mean FAIRLEAD_IPC?"])

    def test_refusals(self):
        self.refuses("options", "--bogus", says=["--bogus", "--markdown"])
        self.refuses("options", "--json=yes", says=["--json takes no value", "accepted: --json"])
        self.refuses("--versoin", says=["unknown option --versoin", "-V"])
        self.refuses("options", "--json", "--markdown", says=["excludes", "one of the two"])


class Help(ToolTest):
    def test_every_command_has_help_and_version(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.succeeds(*command, "--help").stdout
                self.assertTrue(text.startswith("Usage: fairlead " + " ".join(command)), text)
                self.assertIn("Examples:", text)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                self.assertRegex(self.succeeds(*command, "--version").stdout, r"^fairlead \d")

    def test_no_command_prints_help(self):
        text = self.succeeds().stdout
        self.assertIn("Commands:", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertEqual(text, self.succeeds("--help").stdout)

    def test_help_has_the_width_of_the_terminal(self):
        def longest(text):
            return max(map(len, text.partition("Examples:")[0].splitlines()))

        wide = longest(self.succeeds("run", "--help", COLUMNS="110").stdout)
        self.assertTrue(100 < wide <= 110, wide)
        self.assertLessEqual(longest(self.succeeds("run", "--help", COLUMNS="60").stdout), 60)
        self.assertLessEqual(longest(self.succeeds("run", "--help", COLUMNS="many").stdout), 80)
        code, shown = on_terminal("run", "--help", columns=100, stream="stdout")
        self.assertEqual(code, 0)
        self.assertTrue(80 < longest(shown) <= 100, shown)

    def test_other_ways_to_ask(self):
        self.assertEqual(self.succeeds("help", "run").stdout, self.succeeds("run", "--help").stdout)
        self.assertEqual(self.succeeds("help", "bench", "bw").stdout, self.succeeds("bench", "bw", "--help").stdout)
        version = self.succeeds("--version").stdout
        for words in [["-V"], ["bench", "--version"], ["bench", "-V"], ["run", "-V"]]:
            self.assertEqual(self.succeeds(*words).stdout, version)

    def test_help_tells_what_the_launcher_is_given(self):
        text = " ".join(self.succeeds("run", "--help").stdout.split())
        for word in ["--oversubscribe", "--bind-to none", "--allow-run-as-root", "--bind-to core"]:
            self.assertIn(word, text)

    def test_manual_page_names_every_option(self):
        for command in COMMANDS:
            page = self.succeeds(command[0], "--help-man").stdout.replace("\\-", "-")
            for line in self.succeeds(*command, "--help").stdout.splitlines():
                if line.startswith("  -"):
                    self.assertIn(line.split()[0].rstrip(","), page)


if __name__ == "__main__":
    unittest.main()
