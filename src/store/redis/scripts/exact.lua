
-- Exact arithmetic on pairs. Sums and comparisons of whole numbers below 2^53 are exact in doubles;
-- products are cut so that every part stays below that.
local function add(as, an, bs, bn)
  local c = an + bn
  if c >= 1e9 then return as + bs + 1, c - 1e9 end
  return as + bs, c
end

local function less(as, an, bs, bn)
  return as < bs or as == bs and an < bn
end

-- a - b, or 0 where b is larger.
local function over(as, an, bs, bn)
  if as < bs or as == bs and an <= bn then return 0, 0 end
  if an < bn then return as - bs - 1, an + 1e9 - bn end
  return as - bs, an - bn
end

-- A pair times a whole number below 2^33, as units of 65536 seconds, seconds and nanoseconds.
local function times(as, an, k)
  local low = k % 65536
  local high = (k - low) / 65536
  local c = an * high
  local r = c % 1e9
  local big = as * high + (c - r) / 1e9
  c = r * 65536 + an * low
  r = c % 1e9
  c = as * low + (c - r) / 1e9
  low = c % 65536
  return big + (c - low) / 65536, low, r
end

-- A product that is known to be below 2^53 seconds.
local function product(as, an, k)
  local big, low, r = times(as, an, k)
  return big * 65536 + low, r
end

local function less3(ab, as, an, bb, bs, bn)
  return ab < bb or ab == bb and (as < bs or as == bs and an < bn)
end

-- How often the pair d goes into (xb, xs, xn), below 2^33: a guess in doubles is off by one at most.
local function quotient(xb, xs, xn, ds, dn)
  local q = (xb * 65536e9 + xs * 1e9 + xn) / (ds * 1e9 + dn)
  q = q - q % 1
  while less3(xb, xs, xn, times(ds, dn, q)) do q = q - 1 end
  while not less3(xb, xs, xn, times(ds, dn, q + 1)) do q = q + 1 end
  return q
end

-- The pair r < d times k < 2^32, divided by d: quotient, and the rest as a pair.
local function scale(rs, rn, k, ds, dn)
  local q, es, en, bit = 0, 0, 0, 2147483648
  while bit >= 1 do
    q, es, en = q + q, add(es, en, es, en)
    if k >= bit then
      k = k - bit
      es, en = add(es, en, rs, rn)
    end
    while not less(es, en, ds, dn) do
      q, es, en = q + 1, over(es, en, ds, dn)
    end
    bit = bit / 2
  end
  return q, es, en
end
