-- A router's fast path: plain IPv4 packets to this station go a hop on, by the way that their route says; all others go to the router by way 0, as
-- they came.

-- The Ethernet addresses of what goes there: of the next hop, and of the port.
local headers = {
  [1] = string.char(2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1),
  [2] = string.char(2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 0, 2),
}
local LONGEST = 1500 -- the MTU of both links

function run(batch)
  for i = 1, batch:count() do
    -- RFC 1812 section 5.2.2, and no options; frames to both ports begin with 02:00:00:00:00.
    local length = batch:length(i)
    if length >= 34 and batch:u32(i, 0) == 0x02000000 and batch:u8(i, 4) == 0
        and batch:u16(i, 12) == 0x0800 and batch:u8(i, 14) == 0x45 then
      local total = batch:u16(i, 16)
      if total >= 20 and total <= length - 14 and total <= LONGEST and batch:u8(i, 22) > 1 and batch:sum(i, 14, 20) == 0xffff then
        batch:key(i, batch:u32(i, 30))
      end
    end
  end
  batch:look_up("routes")
  for i = 1, batch:count() do
    local to = batch:found(i)
    local header = to and headers[to]
    if header then
      batch:set_bytes(i, 0, header)
      batch:replace_u16(i, 22, batch:u16(i, 22) - 0x0100, 24)
      batch:way(i, to)
    else
      batch:way(i, 0)
    end
  end
end
