
-- The router of the thesis of 2015 in small: checks of RFC 1812 section 5.2.2, Weir's longest prefix match,
-- one hop on, and the Ethernet addresses of the next hop.
local macs = {}
for hop = 0, 193 do
  macs[hop] = string.char(2, 0, 0, 1, 0, hop, 2, 0, 0, 2, 0, 1)
end

function run(batch)
  for i = 1, batch:count() do
    local length = batch:length(i)
    if length >= 34 and batch:u16(i, 12) == 0x0800 and batch:u8(i, 14) == 0x45 then
      local total = batch:u16(i, 16)
      if total >= 20 and total <= length - 14 and batch:u8(i, 22) > 1 and batch:sum(i, 14, 20) == 0xffff then
        batch:key(i, batch:u32(i, 30))
      end
    end
  end
  batch:look_up("routes")
  for i = 1, batch:count() do
    local hop = batch:found(i)
    if hop then
      batch:set_bytes(i, 0, macs[hop])
      batch:replace_u16(i, 22, batch:u16(i, 22) - 0x0100, 24)
    else
      batch:drop(i)
    end
  end
end
