-- What a script calls on a batch. This is the only code of a stage that reaches memory by addresses: it closes over them, and the script
-- has no way to it. Every address is formed from a number (never another type, which could be compared in ways of its own) that lies between
-- bounds; fractions are cut off where they index, which stays between them.
--
-- LuaJIT takes all of this into the loops that call it, and folds what is constant there.
local ffi, at, raw, indexed, longest, holds, look_up, hash = ...
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
local keys = ffi.cast("double *", at.keys)
local found = ffi.cast("const double *", at.found)
local addresses = ffi.cast("uint64_t (*)[2]", at.addresses)
local wide = ffi.cast("int32_t *", at.wide)
local asked = ffi.cast("int32_t *", at.asked)
local count = ffi.cast("const int32_t *", at.count)
local now = ffi.cast("const double *", at.now)

-- New packets, counted from 0: of which packet each is like, its length, its answer; their bytes, each from the beginning of a word of 8 bytes on.
local made = ffi.cast("int32_t *", at.made)
local used = ffi.cast("int32_t *", at.used)
local likes = ffi.cast("int32_t *", at.likes)
local sizes = ffi.cast("int32_t *", at.sizes)
local leads = ffi.cast("int32_t *", at.leads)
local space = ffi.cast("uint8_t *", at.space)
-- Packets that are held.
local places = ffi.cast("int32_t *", at.places)
local spans = ffi.cast("double *", at.spans)
local waited = ffi.cast("const double *", at.waited)

local OUT, DROP, TOO_LONG, HOLD, FIRST_WAY = at.out, at.drop, at.too_long, at.hold, at.first_way
local MOST_MADE, MOST_SPACE = at.most_made, at.most_space

-- What sees to the arguments of accessors. Errors are told where the script called the accessor: behind the level of the check's caller.

local function check_number(what, value, level)
  if type(value) ~= "number" then error(what .. ": expected a number, not " .. type(value), level) end
end

local function check_packet(i)
  if type(i) ~= "number" or not (i >= 1 and i < count[0] + 1) then
    check_number("the packet", i, 4)
    error(format("there is no packet %.0f: the batch has 1 to %.0f", i, count[0]), 3)
  end
end

-- Of a packet that was checked.
local function check_range(i, offset, size)
  if type(offset) ~= "number" or not (offset >= 0 and offset <= lengths[i] - size) then
    check_number("the offset", offset, 4)
    error(format("%.0f bytes at offset %.0f lie outside the packet, which has %.0f", size, offset, lengths[i]), 3)
  end
end

-- One that is to stand in so many bytes, which hold what is below the limit.
local function check_value(value, size, limit)
  if type(value) ~= "number" or not (value >= 0 and value < limit) then
    check_number("the value", value, 4)
    error(format("%s does not fit in %.0f bytes", tostring(value), size), 3)
  end
end

local function check_way(way)
  if type(way) ~= "number" or not (way >= 0 and way < indexed) then
    check_number("the way", way, 4)
    error(format("there is no way %.0f: the stage has %.0f, counted from 0", way, indexed), 3)
  end
end

local batch = {}

function batch.count()
  return count[0]
end

function batch.now()
  return now[0]
end

function batch.length(_, i)
  check_packet(i)
  return lengths[i]
end

function batch.port(_, i)
  check_packet(i)
  return ports[i]
end

function batch.time(_, i)
  check_packet(i)
  return times[i]
end

function batch.u8(_, i, offset)
  check_packet(i)
  check_range(i, offset, 1)
  return heads[i][offset]
end

function batch.u16(_, i, offset)
  check_packet(i)
  check_range(i, offset, 2)
  local head = heads[i]
  return bor(lshift(head[offset], 8), head[offset + 1])
end

function batch.u32(_, i, offset)
  check_packet(i)
  check_range(i, offset, 4)
  local head = heads[i]
  -- What is shifted by 24 may be negative: so the first byte is multiplied.
  return head[offset] * 0x1000000 + bor(lshift(head[offset + 1], 16), lshift(head[offset + 2], 8), head[offset + 3])
end

function batch.set_u8(_, i, offset, value)
  check_packet(i)
  check_range(i, offset, 1)
  check_value(value, 1, 0x100)
  heads[i][offset] = value
end

function batch.set_u16(_, i, offset, value)
  check_packet(i)
  check_range(i, offset, 2)
  check_value(value, 2, 0x10000)
  local head = heads[i]
  head[offset] = rshift(value, 8)
  head[offset + 1] = band(value, 0xff)
end

function batch.set_u32(_, i, offset, value)
  check_packet(i)
  check_range(i, offset, 4)
  check_value(value, 4, 0x100000000)
  local head = heads[i]
  head[offset] = rshift(value, 24)
  head[offset + 1] = band(rshift(value, 16), 0xff)
  head[offset + 2] = band(rshift(value, 8), 0xff)
  head[offset + 3] = band(value, 0xff)
end

function batch.bytes(_, i, offset, size)
  check_packet(i)
  check_number("the count", size, 3)
  if not (size >= 0) then error(format("%.0f bytes cannot be read", size), 2) end
  check_range(i, offset, floor(size))
  return text_of(heads[i] + floor(offset), floor(size))
end

function batch.set_bytes(_, i, offset, bytes)
  check_packet(i)
  if type(bytes) ~= "string" then error("the bytes: expected a string, not " .. type(bytes), 2) end
  check_range(i, offset, #bytes)
  copy(heads[i] + floor(offset), bytes, #bytes)
end

function batch.set_length(_, i, length)
  check_packet(i)
  check_number("the length", length, 3)
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

-- As Rust looks them up, what is no number of the table's has no key.
function batch.key(_, i, key)
  check_packet(i)
  check_number("the key", key, 3)
  keys[i] = key
end

-- An address of IPv6 that stands in the packet.
function batch.key6(_, i, offset)
  check_packet(i)
  check_range(i, offset, 16)
  copy(addresses[i], heads[i] + floor(offset), 16)
  wide[i] = 1
  asked[0] = 1
end

-- Numbers up to here are all told apart.
local MOST = 2 ^ 53 - 1

function batch.hash(_, seed)
  if seed == nil then seed = 0 end
  check_number("the seed", seed, 3)
  if not (seed >= 0 and seed <= MOST) then error(format("a seed is from 0 to %.0f, not %.0f", MOST, seed), 2) end
  hash(seed)
end

function batch.look_up(_, name)
  if type(name) ~= "string" then error("the name of the table: expected a string, not " .. type(name), 2) end
  local problem = look_up(name)
  if problem then error(problem, 2) end
end

function batch.found(_, i)
  check_packet(i)
  local value = found[i]
  if value >= 0 then return value end
  return nil
end

-- The sum of RFC 1071 over bytes, in network order: 65535 of a header whose checksum is right.
function batch.sum(_, i, offset, size)
  check_packet(i)
  check_number("the count", size, 3)
  if not (size >= 0) then error(format("%.0f bytes cannot be summed", size), 2) end
  size = floor(size)
  check_range(i, offset, size)
  local bytes = heads[i] + floor(offset)
  local words = ffi.cast("const uint32_t *", bytes)
  local total = 0
  if size == 20 then
    -- An IPv4 header; the loops below would not be taken into those that call.
    total = words[0] + words[1] + words[2] + words[3] + words[4]
  else
    local whole = floor(size / 4)
    for n = 0, whole - 1 do
      total = total + words[n]
    end
    local place = 1
    for n = whole * 4, size - 1 do
      total = total + bytes[n] * place
      place = place * 256
    end
  end
  -- Carries come back in at the other end: from 44 bits to 29, to 17, to 16. Their bytes are the other way round, as those of all words were.
  local high = floor(total / 0x10000)
  local sum = high + (total - high * 0x10000)
  sum = band(sum, 0xffff) + rshift(sum, 16)
  sum = band(sum, 0xffff) + rshift(sum, 16)
  return bor(rshift(sum, 8), lshift(band(sum, 0xff), 8))
end

-- A number in the packet is changed, and with it the checksum that it is under, by RFC 1624 (equation 3).
function batch.replace_u16(_, i, offset, value, checksum)
  check_packet(i)
  check_range(i, offset, 2)
  check_value(value, 2, 0x10000)
  check_range(i, checksum, 2)
  local head = heads[i]
  local high, low = rshift(value, 8), band(value, 0xff)
  local sum = 0xffff - bor(lshift(head[checksum], 8), head[checksum + 1])
  sum = sum + 0xffff - bor(lshift(head[offset], 8), head[offset + 1]) + bor(lshift(high, 8), low)
  sum = band(sum, 0xffff) + rshift(sum, 16)
  sum = 0xffff - (band(sum, 0xffff) + rshift(sum, 16))
  head[offset] = high
  head[offset + 1] = low
  head[checksum] = rshift(sum, 8)
  head[checksum + 1] = band(sum, 0xff)
end

function batch.drop(_, i)
  check_packet(i)
  if answers[i] ~= TOO_LONG then answers[i] = DROP end
end

function batch.way(_, i, way)
  check_packet(i)
  check_way(way)
  if answers[i] ~= TOO_LONG then answers[i] = FIRST_WAY + floor(way) end
end

-- Where the bytes of a new packet go, which is like a packet that was checked; nil where there is no room for it.
local function room_for(i, size, way)
  if size > longest then error(format("a packet has at most %.0f bytes, not %.0f", longest, size), 3) end
  local lead = OUT
  if way ~= nil then lead = FIRST_WAY + floor(way) end
  local n, from = made[0], used[0]
  local behind = from + floor((size + 7) / 8)
  if n >= MOST_MADE or behind > MOST_SPACE then return nil end
  likes[n], sizes[n], leads[n] = i, size, lead
  made[0], used[0] = n + 1, behind
  return space + from * 8
end

function batch.emit(_, i, bytes, way)
  check_packet(i)
  if type(bytes) ~= "string" then error("the bytes: expected a string, not " .. type(bytes), 2) end
  if way ~= nil then check_way(way) end
  local to = room_for(i, #bytes, way)
  if not to then return false end
  copy(to, bytes, #bytes)
  return true
end

function batch.copy(_, i, way)
  check_packet(i)
  if way ~= nil then check_way(way) end
  local to = room_for(i, lengths[i], way)
  if not to then return false end
  copy(to, heads[i], lengths[i])
  return true
end

local SHORTEST, LONGEST = 1000, 3600e9

-- A place that another answer gives up is free again with the next batch.
function batch.hold(_, i, span)
  check_packet(i)
  if not holds then error("no packets are held: say how many may be, max_held = 1000 in the configuration", 2) end
  if type(span) ~= "number" or not (span >= SHORTEST and span <= LONGEST) then
    check_number("the time", span, 3)
    error(format("a packet is held for %.0f to %.0f nanoseconds, not %.0f", SHORTEST, LONGEST, span), 2)
  end
  if answers[i] == TOO_LONG then return false end
  if answers[i] ~= HOLD then
    if places[0] <= 0 then return false end
    places[0] = places[0] - 1
    answers[i] = HOLD
  end
  spans[i] = floor(span)
  return true
end

function batch.waited(_, i)
  check_packet(i)
  local span = waited[i]
  if span >= 0 then return span end
  return nil
end

function batch.pointer(_, i)
  if not raw then error("addresses are for scripts that may use ffi", 2) end
  check_packet(i)
  return heads[i]
end

return batch
