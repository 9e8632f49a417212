"""Figures of the latest samples."""


class Window:
    """The latest samples, at most as many as it is wide."""

    def __init__(self, width):
        self.width = width
        self.samples = []

    def add(self, sample):
        self.samples.append(sample)
        if len(self.samples) >= self.width:
            self.samples.pop(0)

    def mean(self):
        return sum(self.samples) / len(self.samples) if self.samples else 0
