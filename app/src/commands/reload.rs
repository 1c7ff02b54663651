//! `weir reload`.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use serde_json::Value;

use super::{connect, print, print_json};
use crate::cli;
use crate::failure::Failed;
use weir_protocol::{Request, Script};

/// Replaces the running configuration.
pub(crate) fn reload(options: &cli::Reload) -> Result<(), Failed> {
    let script = options.file.as_deref().map(script_of).transpose()?;
    let request = Request::Reload { script, dry_run: options.dry_run, allow_restart: options.allow_restart };
    let answer = connect(&options.target)?.data(request)?;
    if options.json { print_json(answer) } else { print(&text(&answer)) }
}

/// The script and, as a descriptor, its folder: the running Weir reads nothing outside it.
fn script_of(file: &Path) -> Result<Script, Failed> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let opened = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let descriptor = opened.map_err(|error| format!("cannot open the folder {}: {error}", folder.display()))?;
    if !file.is_file() {
        return Err(Failed::from(format!("{} is no file that can be read", file.display())));
    }
    Ok(Script { file: file.display().to_string(), folder: Some(Arc::new(descriptor)) })
}

fn text(answer: &Value) -> String {
    let plan = answer.get("plan").and_then(Value::as_str).unwrap_or_default();
    let plan = if plan.is_empty() { "nothing changes\n".to_owned() } else { format!("{}\n", plan.trim_end()) };
    let is = |key: &str| answer.get(key).and_then(Value::as_bool).unwrap_or_default();
    match (is("done"), is("needs_restart")) {
        (true, true) => format!("{plan}done; Weir starts again\n"),
        (true, false) => {
            let lacks = answer.get("lacks").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            format!("{plan}done\n{}", lacks.map(|lack| format!("warning: {lack}\n")).collect::<String>())
        }
        (false, true) => format!("{plan}this takes a restart of the whole process: --allow-restart\n"),
        (false, false) => plan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_answer_says_what_was_done() {
        let answer = |plan: &str, restart: bool, done: bool| {
            text(&json!({"plan": plan, "needs_restart": restart, "done": done}))
        };
        assert_eq!(answer("+ port b\n", false, true), "+ port b\ndone\n");
        assert_eq!(answer("", false, false), "nothing changes\n");
        let lacking =
            json!({"plan": "", "needs_restart": false, "done": true, "lacks": ["router: 2 routes had no room"]});
        assert_eq!(text(&lacking), "nothing changes\ndone\nwarning: router: 2 routes had no room\n");
        assert!(answer("~ engine", true, false).ends_with("--allow-restart\n"));
        assert!(answer("~ engine", true, true).ends_with("Weir starts again\n"));
    }

    #[test]
    fn a_script_comes_with_its_folder() {
        assert!(script_of(Path::new("/proc/self/status")).unwrap().folder.is_some());
        assert!(script_of(Path::new("/nowhere/x.lua")).unwrap_err().to_string().contains("folder /nowhere"));
        assert!(script_of(Path::new("/proc/nothing.lua")).unwrap_err().to_string().contains("no file"));
    }
}
