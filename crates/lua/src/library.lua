-- Library functions that work long on one call, made so that what they do is charged. What is charged is taken from what the
-- script may do; where nothing is left, `charge` fails. Small things cost no more than the instructions that ask for them.
local charge, scan = ...
local string, table = string, table
local error, next, select, type = error, next, select, type

-- Bytes from which on a text is charged.
local LONG = 4096

local function charged(made, ...)
  if type(made) == "string" and #made > LONG then charge(#made) end
  return made, ...
end

local format, lower, rep, reverse, sub, upper =
  string.format, string.lower, string.rep, string.reverse, string.sub, string.upper
function string.format(...) return charged(format(...)) end
function string.lower(...) return charged(lower(...)) end
function string.rep(...) return charged(rep(...)) end
function string.reverse(...) return charged(reverse(...)) end
function string.sub(...) return charged(sub(...)) end
function string.upper(...) return charged(upper(...)) end

-- The places of a list that a call touches, as bytes.
local function touched(list, from, to)
  from, to = from or 1, to or #list
  if type(from) == "number" and type(to) == "number" and to - from > LONG / 16 then charge(16 * (to - from)) end
end

local concat, insert, remove, sort = table.concat, table.insert, table.remove, table.sort
function table.concat(list, ...)
  if type(list) == "table" then touched(list, select(2, ...)) end
  return charged(concat(list, ...))
end
function table.insert(list, ...)
  if type(list) == "table" and select("#", ...) > 1 then touched(list, (...)) end
  return insert(list, ...)
end
function table.remove(list, ...)
  if type(list) == "table" and select("#", ...) > 0 then touched(list, (...)) end
  return remove(list, ...)
end

-- With a function in Lua every comparison is instructions.
local function less(one, other) return one < other end
function table.sort(list, before) return sort(list, before or less) end

if table.maxn then
  function table.maxn(list)
    local most = 0
    for key in next, list do
      if type(key) == "number" and key > most then most = key end
    end
    return most
  end
end

local function expect_text(n, argument)
  local kind = type(argument)
  if kind ~= "string" and kind ~= "number" then
    error("bad argument #" .. n .. " to 'gmatch' (string expected, got " .. kind .. ")", 3)
  end
end

function string.gmatch(text, pattern)
  expect_text(1, text)
  expect_text(2, pattern)
  local at = 1
  local function step(after, ...)
    at = after
    return ...
  end
  return function()
    if at then return step(scan(text, pattern, at)) end
  end
end
