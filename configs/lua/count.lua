-- Counts the IPv4 packets of each source address. What one sends beyond LIMIT in a second leaves by way 0.
--
-- Each worker counts what it sees: with several, LIMIT is that of one.

local LIMIT = 1000
local SECOND = 1000000000

local IPV4 = 0x0800
local TYPE, SOURCE, SHORTEST = 12, 26, 34 -- behind 14 bytes of Ethernet, without VLAN tags

local counts, started = {}, 0

function run(batch)
  if batch:now() - started >= SECOND then
    counts, started = {}, batch:now()
  end
  for i = 1, batch:count() do
    if batch:length(i) >= SHORTEST and batch:u16(i, TYPE) == IPV4 then
      local source = batch:u32(i, SOURCE)
      counts[source] = (counts[source] or 0) + 1
      if counts[source] > LIMIT then
        batch:way(i, 0)
      end
    end
  end
end
