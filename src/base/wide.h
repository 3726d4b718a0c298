#pragma once

namespace weir {

// 128 bits, for products of two 64-bit numbers. Not of the C++ standard, but of both compilers that
// build Weir.
__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

}  // namespace weir
