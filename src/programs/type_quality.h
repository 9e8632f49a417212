/* type_quality.h - measured loss of quality of each type: tools/type_quality.sh.
 * X(type, nats a token above F16, share of likeliest tokens that are the same) */
#ifndef PROGRAMS_TYPE_QUALITY_H
#define PROGRAMS_TYPE_QUALITY_H

#define TYPE_QUALITY_MAP(X) \
    X(BLOCK_F16, 0.0000, 1.000) \
    X(BLOCK_Q8_0, 0.0012, 0.977) \
    X(BLOCK_Q8_W, 0.0017, 0.984) \
    X(BLOCK_Q6_K, 0.0052, 0.970) \
    X(BLOCK_Q5_K, 0.0129, 0.935) \
    X(BLOCK_Q5_1, 0.0141, 0.940) \
    X(BLOCK_Q5_0, 0.0249, 0.916) \
    X(BLOCK_Q4_K, 0.0661, 0.863) \
    X(BLOCK_Q4_1, 0.0510, 0.846) \
    X(BLOCK_IQ4_NL, 0.0626, 0.860) \
    X(BLOCK_Q4_0, 0.0307, 0.855) \
    X(BLOCK_IQ4_XS, 0.0644, 0.857) \
    X(BLOCK_MXFP4, 0.1786, 0.775) \
    X(BLOCK_Q4_W, 0.0956, 0.835)

#endif
