/* vf_avx512.h - vectors of sixteen floats, by the names of attend.h. */
#ifndef KERNELS_X86_VF_AVX512_H
#define KERNELS_X86_VF_AVX512_H

#include "kernels/x86/exp_avx512.h"

enum { VF_LANES = 16 };
typedef __m512 vf;
#define vf_load  _mm512_loadu_ps
#define vf_store _mm512_storeu_ps
#define vf_set1  _mm512_set1_ps
#define vf_mul   _mm512_mul_ps
#define vf_fma   _mm512_fmadd_ps

#endif
