use std::cell::OnceCell;

use proptest::prelude::*;

use super::*;
use crate::sandbox::bare;

/// A machine with the library's own functions, and one with the sandbox's.
fn machines() -> (Lua, Lua) {
    (Lua::new(), bare(&Work::new(u64::MAX, 1 << 20)).unwrap())
}

/// What an expression comes to, as a text; `None` if it fails.
fn said(lua: &Lua, expression: &str) -> Option<Vec<u8>> {
    const TELL: &str = "local words = {} for n = 1, select('#', ...) do local word = select(n, ...)\n\
                        words[n] = type(word) .. ':' .. tostring(word) end return table.concat(words, '|')";
    let values: MultiValue = lua.load(format!("return {expression}")).eval().ok()?;
    let text: LuaString = lua.load(TELL).call(values).unwrap();
    Some(text.as_bytes().to_vec())
}

/// Lua's notation of a text.
fn quoted(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
    format!("'{digits}'")
}

/// Pieces that make patterns, wrong ones among them.
const PIECES: [&str; 32] = [
    "a", "b", "c", ".", "%a", "%d", "%s", "%w", "%W", "%x", "%z", "%p", "%%", "%1", "%2", "%b()", "%f[%w]", "[abc]",
    "[^a-c]", "[%a_]", "[]]", "[a-]", "(", ")", "()", "*", "+", "-", "?", "^", "$", "[",
];

thread_local! {
    static MACHINES: OnceCell<(Lua, Lua)> = const { OnceCell::new() };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any pattern on any text: LuaJIT's own matcher is the twin.
    #[test]
    fn patterns_match_what_they_match_in_lua(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..7),
        text in proptest::collection::vec(proptest::sample::select(b"abcA1 ()-_\0\xe9".to_vec()), 0..12),
        by in proptest::sample::select(vec!["'x'", "'<%0>'", "'%1%%'", "string.upper", "{ a = 'z', b = false }"]),
        init in -3_i32..5,
    ) {
        let (text, pattern) = (quoted(&text), quoted(pieces.concat().as_bytes()));
        let walk = "local all = {} for one, two in s:gmatch(p) do all[#all + 1] = tostring(one) .. tostring(two) end";
        for expression in [
            format!("({text}):find({pattern}, {init})"),
            format!("({text}):match({pattern}, {init})"),
            format!("({text}):gsub({pattern}, {by})"),
            format!("({text}):gsub({pattern}, {by}, 2)"),
            format!("({text}):find({pattern}, {init}, true)"),
            format!("(function(s, p) {walk} return table.concat(all, '/') end)({text}, {pattern})"),
        ] {
            MACHINES.with(|machines| {
                let (theirs, ours) = machines.get_or_init(self::machines);
                prop_assert_eq!(said(theirs, &expression), said(ours, &expression), "{}", expression);
                Ok(())
            })?;
        }
    }
}
