
-- One hop on, as RFC 1812 section 5.3.1 has it: the header checksum is changed by RFC 1624.
function run(batch)
  for i = 1, batch:count() do
    if batch:length(i) >= 34 and batch:u16(i, 12) == 0x0800 then
      local ttl = batch:u8(i, 22)
      if ttl <= 1 then
        batch:drop(i)
      else
        batch:set_u8(i, 22, ttl - 1)
        local sum = batch:u16(i, 24) + 0x0100
        batch:set_u16(i, 24, sum > 0xffff and sum - 0xffff or sum)
      end
    end
  end
end
