
local packets, bytes = {}, {}

function run(batch)
  for i = 1, batch:count() do
    if batch:length(i) >= 34 and batch:u16(i, 12) == 0x0800 then
      local source = batch:u32(i, 26)
      packets[source] = (packets[source] or 0) + 1
      bytes[source] = (bytes[source] or 0) + batch:length(i)
    end
  end
end
