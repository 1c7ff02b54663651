-- Holds every packet for a while, loses some, and doubles others.

local DELAY, JITTER = 20e6, 10e6 -- nanoseconds
local LOST, TWICE = 1, 2         -- of 100 lots

function run(batch)
  for i = 1, batch:count() do
    -- What comes back has waited, and goes straight on.
    if not batch:waited(i) then
      local lot = math.random(100)
      if lot == TWICE then batch:copy(i) end
      if lot == LOST or not batch:hold(i, DELAY + JITTER * math.random()) then batch:drop(i) end
    end
  end
end
