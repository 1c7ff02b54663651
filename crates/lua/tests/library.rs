//! The functions of the sandbox's library: they answer as the library's own do, and what they do is bounded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use weir_lua::{Access, LuaStage};
use weir_stage::harness::Harness;

/// What `(the expression)` comes to, as the script writes it into a packet.
const TELL: &str = "
local function told(...)
  local words = {}
  for n = 1, select('#', ...) do
    local word = select(n, ...)
    words[n] = type(word) .. ':' .. tostring(word)
  end
  return #words .. '|' .. table.concat(words, '|')
end
function run(b)
  local said = told(expression())
  b:set_length(1, #said)
  b:set_bytes(1, 0, said)
end
";

/// The same expression in a machine with the library's own functions, and in one with the sandbox's.
fn both(expression: &str) -> (String, String) {
    let text = format!("local function expression() return {expression} end\n{TELL}");
    (said(Access::Raw, &text), said(Access::Checked, &text))
}

/// What a script says, or the error.
fn said(access: Access, text: &str) -> String {
    let mut harness = Harness::new(LuaStage::new("try.lua", text, access, 0).unwrap());
    let outcome = harness.run(0, &[vec![0; 60]]);
    match harness.stage.failures().last() {
        Some(error) => error.to_string(),
        None => String::from_utf8_lossy(&outcome.way("out")[0]).into_owned(),
    }
}

#[test]
fn what_the_manual_says_of_patterns_holds() {
    let cases = [
        ("('hello world'):find('wor')", "2|number:7|number:9"),
        ("('hello'):find('l', 4)", "2|number:4|number:4"),
        ("('a.b'):find('.', 1, true)", "2|number:2|number:2"),
        ("('hello'):find('')", "2|number:1|number:0"),
        ("('hello'):find('', 10)", "2|number:6|number:5"),
        ("('hello'):find('x')", "1|nil:nil"),
        ("('  key = 7'):match('^%s*(%w+)%s*=%s*(%d+)$')", "2|string:key|string:7"),
        ("('hello'):match('()ll()')", "2|number:3|number:5"),
        ("('f(a(b)c)d'):match('%b()')", "1|string:(a(b)c)"),
        ("('THE (quick) fox'):find('%f[%a]%a+%f[%A]', 5)", "2|number:6|number:10"),
        ("('\"a\" b'):match('([\"\\'])(.-)%1')", "2|string:\"|string:a"),
        ("('hello world'):gsub('o', '0')", "2|string:hell0 w0rld|number:2"),
        ("('hello world'):gsub('(%w+)', '<%1>', 1)", "2|string:<hello> world|number:1"),
        ("('abc'):gsub('%w', '%0%0')", "2|string:aabbcc|number:3"),
        ("('abc'):gsub('', '-')", "2|string:-a-b-c-|number:4"),
        ("('$x $y'):gsub('%$(%w+)', { x = 1 })", "2|string:1 $y|number:2"),
        ("('abc'):gsub('%w', function(c) return c == 'b' and 'B' end)", "2|string:aBc|number:3"),
        ("('abc'):gsub('^a', 'x')", "2|string:xbc|number:1"),
        (
            "(function() local s = '' for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do s = s .. k .. v end return s end)()",
            "1|string:a1b2",
        ),
        ("(function() local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n end)()", "1|number:4"),
        (
            "('x'):rep(3), ('abc'):sub(-2), ('a'):upper(), ('A'):lower(), ('ab'):reverse()",
            "5|string:xxx|string:bc|string:A|string:a|string:ba",
        ),
        ("table.concat({ 1, 2, 3 }, ', ', 2, 3)", "1|string:2, 3"),
        (
            "(function() local t = { 3, 1, 2 } table.sort(t) table.insert(t, 1, 0) table.insert(t, 9) return table.remove(t, 1), table.concat(t) end)()",
            "2|number:0|string:1239",
        ),
        (
            "(function() local t = { 'b', 'a' } table.sort(t, function(a, b) return a > b end) return table.concat(t) end)()",
            "1|string:ba",
        ),
        ("table.maxn { 1, [9] = 2, x = 3 }", "1|number:9"),
    ];
    for (expression, expected) in cases {
        let (theirs, ours) = both(expression);
        assert_eq!((theirs.as_str(), ours.as_str()), (expected, expected), "{expression}");
    }
}

#[test]
fn wrong_calls_are_told_with_the_script_s_line() {
    let cases = [
        ("('x'):find('[a')", "malformed pattern (missing ']')"),
        ("('x'):find('%')", "malformed pattern (ends with '%')"),
        ("('x'):find('(x')", "unfinished capture"),
        ("('x'):find('.)')", "invalid pattern capture"),
        ("('x'):find('%1')", "invalid capture index"),
        ("('x'):find('%b')", "unbalanced pattern"),
        ("('x'):find('%f')", "missing '[' after '%f' in pattern"),
        ("('x'):find(('()'):rep(40))", "too many captures"),
        ("('x'):gsub('x', '%2')", "invalid capture index"),
        ("('x'):gsub('x', {x = {}})", "invalid replacement value (a table)"),
        ("('x'):find()", "bad argument #2 to 'find' (string expected, got no value)"),
        ("('x'):gsub('x')", "bad argument #3 to 'gsub' (string/function/table expected, got no value)"),
        ("('x'):gmatch()", "bad argument #2 to 'gmatch' (string expected, got nil)"),
        ("('x'):rep({})", "bad argument #2 to 'rep' (number expected, got table)"),
        ("table.concat({ {} })", "invalid value (table) at index 1 in table for 'concat'"),
        ("table.sort({ 1, 'x' })", "attempt to compare"),
    ];
    for (expression, expected) in cases {
        let error = said(Access::Checked, &format!("function run(b)\nlocal x = {expression}\nend"));
        assert!(error.starts_with("try.lua:2: ") && error.contains(expected), "{expression}: {error}");
        assert!(!error.contains("weir#"), "{error}");
    }
}

/// What a hook does not see: one call that takes long, and many short ones on what is large.
#[test]
fn no_call_takes_longer_than_a_batch_may() {
    let cases = [
        "('a'):rep(1e5):find(('a*'):rep(50) .. 'b')",
        "('a'):rep(1e5):match(('a-'):rep(50) .. 'b')",
        "('a'):rep(1e5):gsub(('a?'):rep(100) .. 'b', '')",
        "(function() for _ in ('a'):rep(1e5):gmatch(('.-'):rep(50) .. 'b') do end end)()",
        "('('):rep(1e6):find('%b()')",
        "('a'):rep(1e6):find(('a'):rep(5e5) .. 'b', 1, true)",
        "(function() while true do local x = ('a'):rep(1e7) end end)()",
        "(function() local s = ('a'):rep(1e7) while true do s = s:upper() end end)()",
        "(function() local s = ('a'):rep(1e7) while true do local x = s:sub(2) end end)()",
        "(function() local s = ('a'):rep(1e7) while true do local x = ('%s'):format(s) end end)()",
        "(function() local s = ('a'):rep(1e7) while true do local x = s .. 'b' end end)()",
        "(function() local s = ('9'):rep(1e7) while true do local x = tonumber(s) end end)()",
        "(function() local t = {} for i = 1, 1e6 do t[i] = '' end while true do table.concat(t) end end)()",
        "(function() local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end end)()",
        "(function() local t = {} for i = 1, 1e6 do t[i] = i end while true do table.maxn(t) end end)()",
        "(function() local t = {} for i = 1, 1e6 do t[i] = (i * 7919) % 1000003 end while true do table.sort(t) end end)()",
        "(function() local t = {} for i = 1, 1e6 do t['k' .. i] = i end for k in pairs(t) do t[k] = nil end while true do next(t) end end)()",
        "('a'):rep(1e6):gsub('a', ('b'):rep(1e6))",
    ];
    for expression in cases {
        let error = said(Access::Checked, &format!("function run(b)\nlocal x = {expression}\nend"));
        let bounded = error.contains("is still running") || error.contains("needs more memory");
        assert!(error.starts_with("try.lua:2: ") && bounded, "{expression}: {error}");
    }
}

#[test]
fn a_script_that_may_do_no_more_fails_once_and_works_again() {
    let text = "function run(b) if b:u8(1, 0) == 1 then (('a'):rep(1e5)):find(('a*'):rep(50) .. 'b') end b:set_u8(1, 1, 9) end";
    let mut harness = Harness::new(LuaStage::new("try.lua", text, Access::Checked, 0).unwrap());
    assert_eq!(harness.run(0, &[[1_u8; 60]]).counts(), BTreeMap::from([("lua-error", 1)]));
    assert_eq!(harness.run(0, &[[0_u8; 60]]).way("out")[0][1], 9);
}
