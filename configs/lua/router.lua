-- Chooses where IPv4 packets go on: by the way of the number that their route says, or by way 0 where they have none.

local NEXT_HOPS = 2 -- there are ways for them, and one for all else

function run(batch)
  for i = 1, batch:count() do
    batch:key(i, batch:u32(i, 30)) -- the destination
  end
  batch:look_up("routes")
  for i = 1, batch:count() do
    local to = batch:found(i)
    batch:way(i, to and to <= NEXT_HOPS and to or 0)
  end
end
