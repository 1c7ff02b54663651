-- Who is no customer is dropped; what a customer sends beyond his rate leaves by way 0.
--
-- Each worker has meters of its own: with several, a customer's rate is that of one.

local IPV4 = 0x0800
local TYPE, SOURCE, SHORTEST = 12, 26, 34 -- behind 14 bytes of Ethernet, without VLAN tags

function run(batch)
  for i = 1, batch:count() do
    if batch:length(i) >= SHORTEST and batch:u16(i, TYPE) == IPV4 then
      batch:key(i, batch:u32(i, SOURCE))
    end
  end
  batch:look_up("customers")
  for i = 1, batch:count() do
    local customer = batch:found(i)
    if customer then
      batch:key(i, customer)
    else
      batch:drop(i)
    end
  end
  batch:look_up("meters")
  for i = 1, batch:count() do
    if batch:found(i) == 0 then
      batch:way(i, 0)
    end
  end
end
