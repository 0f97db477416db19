import pathlib
import unittest

from shelfmark import read

RECORDS = pathlib.Path(__file__).parent / "records"


class RecordTest(unittest.TestCase):
    def test_our_own_records_have_no_defects(self) -> None:
        for path in RECORDS.glob("*.rec"):
            self.assertEqual(read(str(path)).defects, (), path.name)

    def test_a_record_without_a_call_number_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            read(__file__)


if __name__ == "__main__":
    unittest.main()
