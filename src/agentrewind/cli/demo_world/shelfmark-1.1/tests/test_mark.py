import unittest

from shelfmark import parse


class MarkTest(unittest.TestCase):
    def test_class_letters_come_first(self) -> None:
        self.assertLess(parse("PZ7 .A1"), parse("QA1 .A1"))

    def test_class_numbers_are_numbers(self) -> None:
        self.assertLess(parse("QA9 .A1"), parse("QA76.9 .A1"))

    def test_a_year_comes_after_none(self) -> None:
        self.assertLess(parse("QA76 .C3"), parse("QA76 .C3 1998"))

    def test_other_text_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            parse("the blue one, top left")


if __name__ == "__main__":
    unittest.main()
