//! The child process: confined first, then it runs the script of a configuration and says what it declares, or loads that of a stage.

use std::io::{self, BufRead, BufReader, Stdin, Stdout, Write};
use std::process::ExitCode;

use weir_config::{ConfigError, Document, ErrorKind, Place};

use crate::confine::confine;
use crate::machine::Machine;
use crate::protocol::{FromChild, Included, Load, Task, receive, send};
use crate::sandbox::{World, run};

/// The first argument by which the program knows that it is the child process.
pub const CHILD_ARGUMENT: &str = "__lua-config";

/// Runs the child process: reads a script from standard input and writes what comes of it to standard output. To be
/// called before anything else when the first argument is [`CHILD_ARGUMENT`].
pub fn child_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let mut parent = Parent { input: BufReader::new(io::stdin()), output: io::stdout() };
    let Some(request) = receive::<Task>(&mut parent.input, &mut u64::MAX.clone())? else {
        return Ok(());
    };
    let place = Place::line(request.file(), 0);
    if let Err(problem) = confine(request.limits()) {
        let error =
            ConfigError::new(ErrorKind::Limit, &place, "", format!("is not run, because its process {problem}"));
        return send(&mut parent.output, &FromChild::Failed(vec![error]));
    }
    let done = match request {
        Task::Run(request) => run(request, parent),
        Task::Load(load) => loaded(&load),
    };
    let said = match done {
        Ok(document) => FromChild::Done(document),
        Err(errors) => FromChild::Failed(errors),
    };
    send(&mut io::stdout(), &said)
}

/// Loads the script of a stage; there is nothing to tell where it loads.
fn loaded(load: &Load) -> Result<Document, Vec<ConfigError>> {
    let done = if load.only_read {
        Machine::compile(&load.file, &load.text)
    } else {
        Machine::try_load(&load.file, &load.text)
    };
    done.map(|()| Document::default())
}

/// The parent process, which opens the files.
struct Parent<R = BufReader<Stdin>, W = Stdout> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> World for Parent<R, W> {
    fn include(&mut self, path: &str) -> Included {
        let asked = send(&mut self.output, &FromChild::Include(path.to_owned()));
        let answer = asked.and_then(|()| receive(&mut self.input, &mut u64::MAX.clone()));
        answer.ok().flatten().unwrap_or_else(|| Included::Refused("cannot be asked for".to_owned()))
    }

    fn give_up(&mut self, errors: Vec<ConfigError>) -> ! {
        let sent = send(&mut self.output, &FromChild::Failed(errors));
        std::process::exit(i32::from(sent.is_err()))
    }
}
