# SPDX-License-Identifier: Apache-2.0
"""What counts as equal: readings of nvidia-smi before and after, and the exporter's value between."""

import sys
import unittest

sys.dont_write_bytecode = True
import fields
import report
import sources
from fields import CLOCK, COUNTER, FACT, PERCENT, POWER, STATE, Field


def field(tolerance, convert=fields.number):
    return Field("F", "f", tolerance, convert=convert)


class Fields(unittest.TestCase):
    def test_figures_of_nvidia_smi(self):
        for text, want in (("81559", 81559), ("81559 MiB", 81559), ("P0", 0), ("P8", 8), ("Enabled", 1), ("No", 0),
                           ("0x0000000000000004", 4), ("1202176 us", 1202176), ("Exclusive_Process", 3), ("-8 C", -8),
                           ("[N/A]", None), ("N/A", None), ("[Not Supported]", None), ("", None), ("Unknown Error", None)):
            self.assertEqual(fields.number(text), want, text)
        self.assertEqual(fields.fabric("Completed"), 3)
        self.assertIsNone(fields.fabric("N/A"))
        self.assertIsNone(fields.text("[N/A]"))
        self.assertEqual(Field("F", "f", FACT, scale=1000).of_smi("5"), 5000)

    def test_between_the_readings(self):
        self.assertEqual(fields.excess(COUNTER, 5, 6, 7), 0)
        self.assertEqual(fields.excess(COUNTER, 5, 8, 7), 1)
        self.assertEqual(fields.excess(CLOCK, 1980, 1950, 1980), 0)
        self.assertEqual(fields.excess(CLOCK, 1980, 1949, 1980), 1)
        self.assertEqual(fields.excess(CLOCK, 1980, 345, 345), 0)  # it fell meanwhile
        self.assertAlmostEqual(fields.excess(POWER, 100, 120, 100), 5)
        self.assertEqual(fields.excess(STATE, 0, 8, 8), 0)
        self.assertEqual(fields.excess(STATE, 0, 4, 8), 4)

    def test_verdicts(self):
        same = (5, 5, 5)
        self.assertEqual(fields.judge(field(FACT), [same] * 5)[0], "passed")
        self.assertEqual(fields.judge(field(FACT), [same] * 4 + [(5, 6, 5)])[0], "failed")
        # A gauge may be outside of the limits in one of five rounds, but not in two.
        far = (0, 90, 0)
        self.assertEqual(fields.judge(field(PERCENT), [same] * 4 + [far])[0], "passed")
        self.assertEqual(fields.judge(field(PERCENT), [same] * 3 + [far] * 2)[0], "failed")

    def test_values_that_are_absent(self):
        none = (None, None, None)
        self.assertEqual(fields.judge(field(FACT), [none])[0], "absent")
        self.assertEqual(fields.judge(field(FACT), [(5, None, 5)])[0], "failed")  # the exporter lacks it
        self.assertEqual(fields.judge(field(FACT), [(None, 5, None)])[0], "only here")

    def test_texts(self):
        name = field(FACT, fields.text)
        self.assertEqual(fields.judge(name, [("a", "a", "a")])[0], "passed")
        self.assertEqual(fields.judge(name, [("a", "b", "a")])[0], "failed")

    def test_page(self):
        page = '# HELP a b\na{gpu="0",x="a\\"b, c"} 1.5\nb 2\n'
        self.assertEqual(sources.parse_page(page), [("a", {"gpu": "0", "x": 'a"b, c'}, 1.5), ("b", {}, 2)])

    def test_each_tolerance_has_a_reason_and_each_field_is_there_once(self):
        families = [f.family for f in fields.FIELDS]
        self.assertEqual(len(families), len(set(families)))
        for f in fields.FIELDS:
            self.assertTrue(f.tolerance.reason)

    def test_report(self):
        stage = {"checks": [{"name": "a|b", "status": "failed", "remark": "x\ny"}]}
        facts = {"simulated": False, "GPUs": [{"index": "0", "name": "n", "uuid": "u"}]}
        text = report.markdown({"facts": facts, "stages": {"idle": stage}, "seconds": 1,
                                "counts": report.counts({"idle": stage})})
        self.assertIn("0 passed, 1 failed, 0 skipped", text)
        self.assertIn("| a\\|b | failed | x y |", text)


if __name__ == "__main__":
    unittest.main()
