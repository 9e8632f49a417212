/* vf_avx2.h - vectors of eight floats, by the names of attend.h. */
#ifndef KERNELS_X86_VF_AVX2_H
#define KERNELS_X86_VF_AVX2_H

#include "kernels/x86/exp_avx2.h"

enum { VF_LANES = 8 };
typedef __m256 vf;
#define vf_load  _mm256_loadu_ps
#define vf_store _mm256_storeu_ps
#define vf_set1  _mm256_set1_ps
#define vf_mul   _mm256_mul_ps
#define vf_fma   _mm256_fmadd_ps

#endif
