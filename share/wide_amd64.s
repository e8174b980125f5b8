#include "textflag.h"

DATA iv<>+0(SB)/4, $0x6a09e667
DATA iv<>+4(SB)/4, $0xbb67ae85
DATA iv<>+8(SB)/4, $0x3c6ef372
DATA iv<>+12(SB)/4, $0xa54ff53a
DATA iv<>+16(SB)/4, $0x510e527f
DATA iv<>+20(SB)/4, $0x9b05688c
DATA iv<>+24(SB)/4, $0x1f83d9ab
DATA iv<>+28(SB)/4, $0x5be0cd19
GLOBL iv<>(SB), RODATA|NOPTR, $32

// TRANSPOSE makes w, x, y, z of a, b, c, d: in each quarter of the vectors, rows become columns.
#define TRANSPOSE(a, b, c, d, w, x, y, z) \
	VPUNPCKLDQ  b, a, Z24; \
	VPUNPCKHDQ  b, a, Z26; \
	VPUNPCKLDQ  d, c, Z28; \
	VPUNPCKHDQ  d, c, Z30; \
	VPUNPCKLQDQ Z28, Z24, w; \
	VPUNPCKHQDQ Z28, Z24, x; \
	VPUNPCKLQDQ Z30, Z26, y; \
	VPUNPCKHQDQ Z30, Z26, z

// QUARTERS loads 16 bytes of four inputs, each four inputs after the one before.
#define QUARTERS(at, index, x, z) \
	VMOVDQU32    at(SI)(index), x; \
	VINSERTI32X4 $1, at(R11)(index), z, z; \
	VINSERTI32X4 $2, at(R12)(index), z, z; \
	VINSERTI32X4 $3, at(R13)(index), z, z

// WORDS loads four words of the blocks of all inputs. Gathering them takes twice as long on many
// processors.
#define WORDS(at, w, x, y, z) \
	QUARTERS(at, AX*1, X16, Z16); \
	QUARTERS(at, R8*1, X18, Z18); \
	QUARTERS(at, R8*2, X20, Z20); \
	QUARTERS(at, R10*1, X22, Z22); \
	TRANSPOSE(Z16, Z18, Z20, Z22, w, x, y, z)

// G mixes the message words x and y into a, b, c, d.
#define G(a, b, c, d, x, y) \
	VPADDD b, a, a; \
	VPADDD x, a, a; \
	VPXORD a, d, d; \
	VPRORD $16, d, d; \
	VPADDD d, c, c; \
	VPXORD c, b, b; \
	VPRORD $12, b, b; \
	VPADDD b, a, a; \
	VPADDD y, a, a; \
	VPXORD a, d, d; \
	VPRORD $8, d, d; \
	VPADDD d, c, c; \
	VPXORD c, b, b; \
	VPRORD $7, b, b

#define ROUND(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15) \
	G(Z0, Z8, Z16, Z24, m0, m1); \
	G(Z2, Z10, Z18, Z26, m2, m3); \
	G(Z4, Z12, Z20, Z28, m4, m5); \
	G(Z6, Z14, Z22, Z30, m6, m7); \
	G(Z0, Z10, Z20, Z30, m8, m9); \
	G(Z2, Z12, Z22, Z24, m10, m11); \
	G(Z4, Z14, Z16, Z26, m12, m13); \
	G(Z6, Z8, Z18, Z28, m14, m15)

// PUT stores the chaining values of four inputs, each four inputs after the one before.
#define PUT(at, t, u) \
	VEXTRACTI32X4 $0, t, (at)(DI); \
	VEXTRACTI32X4 $0, u, (at+16)(DI); \
	VEXTRACTI32X4 $1, t, (at+128)(DI); \
	VEXTRACTI32X4 $1, u, (at+144)(DI); \
	VEXTRACTI32X4 $2, t, (at+256)(DI); \
	VEXTRACTI32X4 $2, u, (at+272)(DI); \
	VEXTRACTI32X4 $3, t, (at+384)(DI); \
	VEXTRACTI32X4 $3, u, (at+400)(DI)

// The state is in the even registers, the message words in the odd ones.
//
// func compress16(cvs *[16][8]uint32, in *byte, stride, blocks int, counters *[2][16]uint32, flags, first, last uint32)
TEXT ·compress16(SB), NOSPLIT, $0-52
	MOVQ cvs+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ blocks+24(FP), CX
	MOVQ counters+32(FP), DX
	MOVL first+44(FP), R9
	LEAQ (R8)(R8*2), R10
	LEAQ (SI)(R8*4), R11
	LEAQ (R11)(R8*4), R12
	LEAQ (R12)(R8*4), R13

	VPBROADCASTD iv<>+0(SB), Z0
	VPBROADCASTD iv<>+4(SB), Z2
	VPBROADCASTD iv<>+8(SB), Z4
	VPBROADCASTD iv<>+12(SB), Z6
	VPBROADCASTD iv<>+16(SB), Z8
	VPBROADCASTD iv<>+20(SB), Z10
	VPBROADCASTD iv<>+24(SB), Z12
	VPBROADCASTD iv<>+28(SB), Z14

block:
	XORQ AX, AX
	WORDS(0, Z1, Z3, Z5, Z7)
	WORDS(16, Z9, Z11, Z13, Z15)
	WORDS(32, Z17, Z19, Z21, Z23)
	WORDS(48, Z25, Z27, Z29, Z31)
	ADDQ $64, SI
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, R13

	ORL  flags+40(FP), R9
	CMPQ CX, $1
	JNE  state
	ORL  last+48(FP), R9

state:
	MOVL         $64, AX
	VPBROADCASTD iv<>+0(SB), Z16
	VPBROADCASTD iv<>+4(SB), Z18
	VPBROADCASTD iv<>+8(SB), Z20
	VPBROADCASTD iv<>+12(SB), Z22
	VMOVDQU32    (DX), Z24
	VMOVDQU32    64(DX), Z26
	VPBROADCASTD AX, Z28
	VPBROADCASTD R9, Z30
	XORL         R9, R9

	ROUND(Z1, Z3, Z5, Z7, Z9, Z11, Z13, Z15, Z17, Z19, Z21, Z23, Z25, Z27, Z29, Z31)
	ROUND(Z5, Z13, Z7, Z21, Z15, Z1, Z9, Z27, Z3, Z23, Z25, Z11, Z19, Z29, Z31, Z17)
	ROUND(Z7, Z9, Z21, Z25, Z27, Z5, Z15, Z29, Z13, Z11, Z19, Z1, Z23, Z31, Z17, Z3)
	ROUND(Z21, Z15, Z25, Z19, Z29, Z7, Z27, Z31, Z9, Z1, Z23, Z5, Z11, Z17, Z3, Z13)
	ROUND(Z25, Z27, Z19, Z23, Z31, Z21, Z29, Z17, Z15, Z5, Z11, Z7, Z1, Z3, Z13, Z9)
	ROUND(Z19, Z29, Z23, Z11, Z17, Z25, Z31, Z3, Z27, Z7, Z1, Z21, Z5, Z13, Z9, Z15)
	ROUND(Z23, Z31, Z11, Z1, Z3, Z19, Z17, Z13, Z29, Z21, Z5, Z25, Z7, Z9, Z15, Z27)

	VPXORD Z16, Z0, Z0
	VPXORD Z18, Z2, Z2
	VPXORD Z20, Z4, Z4
	VPXORD Z22, Z6, Z6
	VPXORD Z24, Z8, Z8
	VPXORD Z26, Z10, Z10
	VPXORD Z28, Z12, Z12
	VPXORD Z30, Z14, Z14
	DECQ   CX
	JNZ    block

	TRANSPOSE(Z0, Z2, Z4, Z6, Z1, Z3, Z5, Z7)
	TRANSPOSE(Z8, Z10, Z12, Z14, Z9, Z11, Z13, Z15)
	PUT(0, Z1, Z9)
	PUT(32, Z3, Z11)
	PUT(64, Z5, Z13)
	PUT(96, Z7, Z15)
	VZEROUPPER
	RET
