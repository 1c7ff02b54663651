-- What a script calls on a batch. This is the only code of a stage that reaches memory by addresses: it closes over them, and the script
-- has no way to it. Every address is formed from a number (never another type, which could be compared in ways of its own) that lies between
-- bounds; fractions are cut off where they index, which stays between them.
--
-- LuaJIT takes all of this into the loops that call it, and folds what is constant there.
local ffi, at, raw, indexed, longest = ...
local band, lshift, rshift, bor = bit.band, bit.lshift, bit.rshift, bit.bor
local copy, fill, text_of = ffi.copy, ffi.fill, ffi.string
local error, type, format, floor, tostring = error, type, string.format, math.floor, tostring

-- Arrays by packet, counted from 1; see `View`.
local heads = ffi.cast("uint8_t *const *", at.bytes)
local lengths = ffi.cast("int32_t *", at.lengths)
local rooms = ffi.cast("const int32_t *", at.rooms)
local ports = ffi.cast("const int32_t *", at.ports)
local times = ffi.cast("const double *", at.times)
local answers = ffi.cast("int32_t *", at.answers)
local count = ffi.cast("const int32_t *", at.count)
local now = ffi.cast("const double *", at.now)

-- Answers as Rust reads them.
local DROP, TOO_LONG, FIRST_WAY = 1, 2, 3

-- Errors are told at the line of the script that called.
local function no_number(what, found)
  error(what .. ": expected a number, not " .. type(found), 3)
end

local function no_packet(i)
  if type(i) ~= "number" then no_number("the packet", i) end
  error(format("there is no packet %.0f: the batch has 1 to %.0f", i, count[0]), 3)
end

local function outside(i, offset, size)
  if type(offset) ~= "number" then no_number("the offset", offset) end
  if type(size) ~= "number" then no_number("the count", size) end
  error(format("%.0f bytes at offset %.0f lie outside the packet, which has %.0f", size, offset, lengths[i]), 3)
end

local function unfit(value, size)
  if type(value) ~= "number" then no_number("the value", value) end
  error(format("%s does not fit in %.0f bytes", tostring(value), size), 3)
end

local batch = {}

function batch.count()
  return count[0]
end

function batch.now()
  return now[0]
end

function batch.length(_, i)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  return lengths[i]
end

function batch.port(_, i)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  return ports[i]
end

function batch.time(_, i)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  return times[i]
end

function batch.u8(_, i, offset)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - 1) then outside(i, offset, 1) end
  return heads[i][offset]
end

function batch.u16(_, i, offset)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - 2) then outside(i, offset, 2) end
  local head = heads[i]
  return bor(lshift(head[offset], 8), head[offset + 1])
end

function batch.u32(_, i, offset)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - 4) then outside(i, offset, 4) end
  local head = heads[i]
  -- What is shifted by 24 may be negative: so the first byte is multiplied.
  return head[offset] * 0x1000000 + bor(lshift(head[offset + 1], 16), lshift(head[offset + 2], 8), head[offset + 3])
end

function batch.set_u8(_, i, offset, value)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - 1) then outside(i, offset, 1) end
  if type(value) ~= "number" or not (value >= 0 and value < 0x100) then unfit(value, 1) end
  heads[i][offset] = value
end

function batch.set_u16(_, i, offset, value)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - 2) then outside(i, offset, 2) end
  if type(value) ~= "number" or not (value >= 0 and value < 0x10000) then unfit(value, 2) end
  local head = heads[i]
  head[offset] = rshift(value, 8)
  head[offset + 1] = band(value, 0xff)
end

function batch.set_u32(_, i, offset, value)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - 4) then outside(i, offset, 4) end
  if type(value) ~= "number" or not (value >= 0 and value < 0x100000000) then unfit(value, 4) end
  local head = heads[i]
  head[offset] = rshift(value, 24)
  head[offset + 1] = band(rshift(value, 16), 0xff)
  head[offset + 2] = band(rshift(value, 8), 0xff)
  head[offset + 3] = band(value, 0xff)
end

function batch.bytes(_, i, offset, size)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if
    type(offset) ~= "number"
    or type(size) ~= "number"
    or not (offset >= 0 and size >= 0 and floor(offset) + floor(size) <= lengths[i])
  then
    outside(i, offset, size)
  end
  return text_of(heads[i] + floor(offset), floor(size))
end

function batch.set_bytes(_, i, offset, bytes)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(bytes) ~= "string" then error("the bytes: expected a string, not " .. type(bytes), 2) end
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - #bytes) then outside(i, offset, #bytes) end
  copy(heads[i] + floor(offset), bytes, #bytes)
end

function batch.set_length(_, i, length)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(length) ~= "number" then no_number("the length", length) end
  if not (length >= 0 and length <= longest) then
    error(format("a packet has at most %.0f bytes, not %.0f", longest, length), 2)
  end
  local old, new = lengths[i], floor(length)
  if new > rooms[i] then
    answers[i] = TOO_LONG
    new = rooms[i]
  end
  if new > old then fill(heads[i] + old, new - old) end
  lengths[i] = new
end

function batch.drop(_, i)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if answers[i] ~= TOO_LONG then answers[i] = DROP end
end

function batch.way(_, i, way)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  if type(way) ~= "number" or not (way >= 0 and way < indexed) then
    if type(way) ~= "number" then no_number("the way", way) end
    error(format("there is no way %.0f: the stage has %.0f, counted from 0", way, indexed), 2)
  end
  if answers[i] ~= TOO_LONG then answers[i] = FIRST_WAY + floor(way) end
end

function batch.pointer(_, i)
  if not raw then error("addresses are for scripts that may use ffi", 2) end
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then no_packet(i) end
  return heads[i]
end

return batch
