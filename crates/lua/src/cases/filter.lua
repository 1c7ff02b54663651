
-- What comes from 198.18.0.0/15 and goes to UDP port 9.
function run(batch)
  for i = 1, batch:count() do
    local ok = batch:length(i) >= 42 and batch:u16(i, 12) == 0x0800 and batch:u8(i, 14) == 0x45
      and batch:u8(i, 23) == 17 and bit.band(batch:u16(i, 26), 0xfffe) == 0xc612 and batch:u16(i, 36) == 9
    if not ok then batch:drop(i) end
  end
end
