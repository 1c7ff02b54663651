//! The child process: confined first, then it runs the script and says what it declares.

use std::io::{self, BufRead, BufReader, Stdin, Stdout, Write};
use std::process::ExitCode;

use weir_config::{ConfigError, ErrorKind, Place};

use crate::confine::confine;
use crate::protocol::{FromChild, Included, Run, receive, send};
use crate::sandbox::{World, run};

/// The first argument by which the program knows that it is the child process.
pub const CHILD_ARGUMENT: &str = "__lua-config";

/// Runs the child process: reads a script from standard input and writes what it declares to standard output. To be
/// called before anything else when the first argument is [`CHILD_ARGUMENT`].
pub fn child_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let mut parent = Parent { input: BufReader::new(io::stdin()), output: io::stdout() };
    let Some(request) = receive::<Run>(&mut parent.input, &mut u64::MAX.clone())? else {
        return Ok(());
    };
    let place = Place::line(&request.file, 0);
    if let Err(problem) = confine(&request.limits) {
        let error =
            ConfigError::new(ErrorKind::Limit, &place, "", format!("is not run, because its process {problem}"));
        return send(&mut parent.output, &FromChild::Failed(vec![error]));
    }
    let said = match run(request, parent) {
        Ok(document) => FromChild::Done(document),
        Err(errors) => FromChild::Failed(errors),
    };
    send(&mut io::stdout(), &said)
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
