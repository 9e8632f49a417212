"""Write NAME.expect: sequences, their logits, and the error bounds."""
import struct

import numpy as np

SAFETY = 3.0          # bound = this factor times the error of the simulated engine
FLOAT_BOUND = 2e-3    # float files, of logits, against transformers with an F16 cache, too
KL_LEAST = 1e-5


def write_expect(path, sequences, rows, references):
    """references: (logits of each sequence, (error bound, KL bound)), one or two of them."""
    with open(path, "wb") as f:
        f.write(b"CEXPECT%d" % len(references) + struct.pack("<I", len(sequences)))
        for _, bounds in references:
            f.write(struct.pack("<ff", *bounds))
        for i, (s, r) in enumerate(zip(sequences, rows)):
            f.write(struct.pack("<III", len(s), references[0][0][i].shape[-1], r))
            f.write(np.array(s, "<i4").tobytes())
            for logits, _ in references:
                f.write(logits[i][r:].numpy().astype("<f4").tobytes())
