//! The scripts that make shells ask `weir complete`.

/// Words come one in each line, with a tab and what they are behind; without any, files are completed.
const BASH: &str = r#"_weir() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _weir weir
"#;

const ZSH: &str = r#"#compdef weir
_weir() {
    local -a lines found shown
    lines=("${(@f)$("$words[1]" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    lines=(${lines:#})
    if (( ! $#lines )); then
        _files
        return
    fi
    found=("${(@)lines%%$'\t'*}")
    shown=("${(@)lines/$'\t'/  -- }")
    compadd -l -d shown -a found
}
if [ "$funcstack[1]" = "_weir" ]; then
    _weir "$@"
else
    compdef _weir weir
fi
"#;

const FISH: &str = r#"function __weir_complete
    set -l words (commandline -opc)
    set -l now (commandline -ct)
    set -l found ($words[1] complete -- $words[2..-1] $now 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path $now
    end
end
complete -c weir -f -a '(__weir_complete)'
"#;

/// The script of a shell.
pub(crate) fn script(shell: &str) -> &'static str {
    match shell {
        "zsh" => ZSH,
        "fish" => FISH,
        _ => BASH,
    }
}
