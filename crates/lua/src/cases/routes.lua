
local function routes()
  local prefixes = { ["0.0.0.0/0"] = 0 }
  for n = 1, 410000 do
    local mixed = n * 2654435761 % 2 ^ 32
    local length = n % 100 < 55 and 24 or 16 + n % 8
    local network = mixed - mixed % 2 ^ (32 - length)
    local byte = function(shift) return math.floor(network / 2 ^ shift) % 256 end
    prefixes[("%d.%d.%d.%d/%d"):format(11 + byte(24) % 110, byte(16), byte(8), byte(0), length)] = n % 194
  end
  return prefixes
end
