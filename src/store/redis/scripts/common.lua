
-- No instant that is kept lies after the year 2242.
local latest = 8589934592

-- What a stored time ahead of now may be ahead by before it counts as one of another clock.
local function out_of_reach(as, an)
  return less(s + 1, n, as, an)
end

local function milliseconds_until(as, an)
  local ms = (as - s) * 1000 + (an - n) / 1e6
  if ms < 0 then ms = 0 end
  return ms - ms % 1 + 1 + margin
end

-- When a policy was loaded is told by whoever loaded it: what lies ahead of now is of a clock that
-- runs ahead, and counts as of now.
local function loaded(load)
  if load > s * 1000 + 999 then return s * 1000 end
  return load
end

-- Which numbers hold for a counter kept under (limit, burst) of load: true where they are other
-- ones than the ask's and newer. Sets c.load to the later load where they are the same. A load that
-- is kept and lies ahead was written before the clock was set back: it says nothing of which is newer.
local function newer(c, limit, burst, load)
  if load > s * 1000 + 1999 then return false end
  if limit == c.limit and burst == c.burst then
    if load > c.load then c.load = load end
    return false
  end
  if load ~= c.load then return load > c.load end
  return limit > c.limit or limit == c.limit and burst > c.burst
end

-- Reads a counter that is one string; a value of another type or length counts as none.
local function get(c, letter, size)
  local v = try('GET', c.key)
  if not v then return nil end
  if type(v) == 'table' and not string.find(v.err, 'WRONGTYPE', 1, true) then return nil, v end
  if type(v) == 'string' and #v == size and sub(v, 1, 1) == letter then
    c.found = true
    return v
  end
  c.repaired = true
  return nil
end

local function put(c, value, es, en)
  call('SET', c.key, value, 'PX', milliseconds_until(es, en))
end
