import unittest

from window import Window


class Samples(unittest.TestCase):
    def test_keeps_as_many_as_it_is_wide(self):
        window = Window(3)
        for sample in (9, 1, 2, 3):
            window.add(sample)
        self.assertEqual(list(window.samples), [1, 2, 3])

    def test_mean(self):
        window = Window(4)
        for sample in (2, 4, 6, 8):
            window.add(sample)
        self.assertEqual(window.mean(), 5)


if __name__ == "__main__":
    unittest.main()
