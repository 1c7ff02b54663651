//! From a checked configuration to streams that can be sent: everything that can be wrong beyond the schema is found here.

use std::net::IpAddr;
use std::path::Path as FilePath;

use weir_config::{ConfigError, Element, ErrorKind, Path};
use weir_measure::signature::Form;
use weir_stage::{Env, PortInfo};

use crate::config::{Gaps, GenConfig, RowOrder, StreamConfig, Timing};
use crate::layers::{self, Around, Built};
use crate::load::{CHECK_SEQUENCE, Gap, Load, Pace};
use crate::random::Random;
use crate::replay::Replay;
use crate::report::About;
use crate::shared::NextHop;
use crate::stream::{Content, Limit, Stream};
use crate::table::Columns;
use crate::template::Template;

/// What a capture file holds.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// When each frame is due, nanoseconds behind the first, and its bytes. Times never run backwards.
    pub frames: Vec<(u64, Vec<u8>)>,
    /// What is odd about its stamps, if anything: a sentence.
    pub remark: Option<String>,
}

/// Reads a capture file, in bounded memory; or says in a sentence what is wrong with it.
pub type ReadCapture = fn(&FilePath) -> Result<Capture, String>;

/// A stream as it was built.
pub(crate) struct Ready {
    pub(crate) stream: Stream,
    pub(crate) port: u16,
    /// Its next hop's place in the list, if it has one that is to be asked for.
    pub(crate) hop: Option<usize>,
    pub(crate) about: About,
}

/// All that was built.
#[derive(Default)]
pub(crate) struct Whole {
    pub(crate) streams: Vec<Ready>,
    pub(crate) hops: Vec<NextHop>,
}

/// Builds streams, and collects what is wrong.
pub(crate) struct Builder<'a> {
    element: &'a Element,
    env: &'a Env<'a>,
    config: &'a GenConfig,
    read: ReadCapture,
    errors: Vec<ConfigError>,
    whole: Whole,
}

/// Builds all streams of a configuration.
///
/// # Errors
///
/// Everything that is wrong.
pub(crate) fn build(
    element: &Element,
    env: &Env<'_>,
    config: &GenConfig,
    read: ReadCapture,
) -> Result<Whole, Vec<ConfigError>> {
    let mut builder = Builder { element, env, config, read, errors: Vec::new(), whole: Whole::default() };
    let root = element.path();
    let streams = root.field("streams");
    for (n, stream) in config.streams.iter().enumerate() {
        builder.stream(n, stream, &streams.index(n as i64 + 1));
    }
    if config.streams.is_empty() && config.receive.is_empty() {
        let problem = "nothing to send and nowhere to receive; expected `streams`, `receive` or both";
        builder.errors.push(element.error(ErrorKind::Missing, &root, problem));
    }
    if builder.errors.is_empty() { Ok(builder.whole) } else { Err(builder.errors) }
}

impl Builder<'_> {
    fn wrong(&mut self, kind: ErrorKind, path: &Path<'_>, problem: impl Into<String>) {
        self.errors.push(self.element.error(kind, path, problem));
    }

    fn stream(&mut self, n: usize, config: &StreamConfig, path: &Path<'_>) {
        let Some(port) = self.env.port(&config.port).cloned() else {
            return self.wrong(
                ErrorKind::Dangling,
                &path.field("port"),
                format!("names no port that runs: {}", config.port),
            );
        };
        let before = self.errors.len();
        let load = self.load(config, path);
        let hop = config.via.and_then(|via| self.hop(via, &port, &path.field("via")));
        let random = |part: u64| Random::new(self.config.seed, (n as u64).wrapping_mul(1 << 16).wrapping_add(part));
        let pace = match config.gaps {
            Gaps::Constant => Pace::constant(load),
            Gaps::Poisson => Pace::poisson(load, random(1)),
            Gaps::Burst => Pace::bursts(load, config.burst),
        };
        let limit = Limit {
            count: config.count.unwrap_or(u64::MAX),
            duration: config.duration.map_or(u64::MAX / 2, weir_config::Nanos::nanos),
            after: config.after.nanos(),
        };
        let made = match &config.replay {
            Some(file) => self.replay(config, file, path),
            None => self.template(n, config, &port, path),
        };
        let Some(Made { content, sizes, form, remark }) = made.filter(|_| self.errors.len() == before) else { return };
        let gaps: Vec<Gap> = sizes.iter().map(|&size| Gap::behind(load, size)).collect();
        let about = About {
            name: config.name.clone().unwrap_or_else(|| (n + 1).to_string()),
            port: port.name.clone(),
            rate: config.rate.to_string(),
            asked_pps: asked_pps(load, &content, &sizes),
            signed: form.is_some(),
            gives_up: form.map_or_else(Vec::new, |form| form.gives_up().iter().map(ToString::to_string).collect()),
            remark,
        };
        // A destination that is given stays.
        let keeps = config
            .layers
            .first()
            .is_some_and(|layer| layer.ethernet.as_ref().is_some_and(|ethernet| ethernet.destination.is_some()));
        let stream = Stream::new(n, content, (load, pace, gaps), limit, form.is_some());
        self.whole.streams.push(Ready {
            stream,
            port: port.index,
            hop: hop.filter(|_| !keeps && config.replay.is_none()),
            about,
        });
    }

    fn load(&mut self, config: &StreamConfig, path: &Path<'_>) -> Load {
        let speed = self.config.link_speed.map(weir_config::Rate::bits_per_second);
        let load = config.rate.on(speed);
        if load.is_none() {
            let problem = format!("{} of a link whose speed is not known", config.rate);
            let error = self.element.error(ErrorKind::Missing, &path.field("rate"), problem);
            self.errors.push(error.remedy("add link_speed = \"10 Gbit/s\", or write a rate of packets or bits"));
        }
        let load = load.unwrap_or(Load::Max);
        if let Load::Bits(rate) = load
            && rate > 1_000_000_000_000
        {
            self.wrong(
                ErrorKind::OutOfRange,
                &path.field("rate"),
                "is more than 1 Tbit/s, which nobody sends from one port",
            );
        }
        if load == Load::Max && config.gaps != Gaps::Constant && config.replay.is_none() {
            let problem = format!("\"{}\" gaps have no meaning without a rate", config.gaps);
            let error = self.element.error(ErrorKind::Conflict, &path.field("gaps"), problem);
            self.errors.push(error.remedy("add a rate, as in rate = \"1 Mpps\""));
        }
        load
    }

    /// The place of a next hop in the list; a new one where no other stream has it.
    fn hop(&mut self, via: IpAddr, port: &PortInfo, path: &Path<'_>) -> Option<usize> {
        let own = port.addresses.iter().map(|address| address.address()).find(|own| own.is_ipv4() == via.is_ipv4());
        let Some(own) = own else {
            let problem = format!("{via} cannot be asked for: port \"{}\" has no address of its kind", port.name);
            let error = self.element.error(ErrorKind::Missing, path, problem);
            self.errors.push(error.remedy("give the port an address, as in address = \"192.0.2.2/24\""));
            return None;
        };
        let hops = &mut self.whole.hops;
        let known = hops.iter().position(|hop| hop.port == port.index && hop.address == via);
        Some(known.unwrap_or_else(|| {
            hops.push(NextHop::new(port.index, port.name.clone(), via, own));
            hops.len() - 1
        }))
    }

    fn template(&mut self, n: usize, config: &StreamConfig, port: &PortInfo, path: &Path<'_>) -> Option<Made> {
        if config.timing == Timing::Recorded {
            self.wrong(
                ErrorKind::Conflict,
                &path.field("timing"),
                "only a capture file (replay) has a timing of its own",
            );
        }
        let usual = layers::usual();
        let list = if config.layers.is_empty() { &usual } else { &config.layers };
        let built = match layers::build(list, Around { mac: port.facts.mac }) {
            Ok(built) => built,
            Err(wrong) => {
                let layers = path.field("layers");
                for (layer, problem) in wrong {
                    self.wrong(ErrorKind::Malformed, &layers.index(layer as i64 + 1), problem);
                }
                return None;
            }
        };
        let headers = built.bytes.len();
        let shortest = usize::from(config.size.shortest()) - CHECK_SEQUENCE as usize;
        let size = path.field("size");
        if shortest < headers {
            let fits = headers + CHECK_SEQUENCE as usize;
            let problem =
                format!("{} is too short: the layers take {headers} bytes, and the check sequence 4", config.size);
            let error = self.element.error(ErrorKind::OutOfRange, &size, problem);
            self.errors.push(error.remedy(format!("write at least {fits}, or leave layers out")));
            return None;
        }
        // Ethernet and the tags behind it are not counted in an MTU.
        let tags = list.iter().skip(1).take_while(|layer| layer.vlan.is_some()).count();
        let most = usize::from(port.facts.mtu) + 14 + 4 * tags + CHECK_SEQUENCE as usize;
        if usize::from(config.size.longest()) > most {
            let problem =
                format!("has frames of {} bytes; port \"{}\" carries {most} at most", config.size.longest(), port.name);
            let error = self.element.error(ErrorKind::OutOfRange, &size, problem);
            self.errors.push(error.remedy("write shorter ones, or give the port a larger mtu"));
            return None;
        }
        let form = self.form(config, &built, shortest, path)?;
        let columns = self.columns(config, &built, path)?;
        let signature = form.map(|form| (form, n as u16));
        let columns = columns.as_ref().map(|columns| (columns, config.rows));
        let template = Template::new(&built, &config.size, columns, signature, (self.config.seed, n as u64));
        let sizes = config.size.lengths.iter().map(|&length| u64::from(length)).collect();
        Some(Made { content: Content::Template(Box::new(template)), sizes, form, remark: None })
    }

    /// The form of the signature: `Some(None)` for none.
    #[allow(clippy::option_option, reason = "no signature, and a signature that does not fit, are different things")]
    fn form(&mut self, config: &StreamConfig, built: &Built, shortest: usize, path: &Path<'_>) -> Option<Option<Form>> {
        if !config.signature {
            return Some(None);
        }
        let room = shortest - built.bytes.len();
        let form = Form::fitting(room);
        if form.is_none() {
            let least = Form::ALL.iter().map(|form| form.len()).min().unwrap_or(0);
            let size = built.bytes.len() + least + CHECK_SEQUENCE as usize;
            let problem = format!(
                "does not fit: behind the layers there are {room} bytes, and the shortest signature has {least}"
            );
            let error = self.element.error(ErrorKind::OutOfRange, &path.field("signature"), problem);
            self.errors.push(error.remedy(format!("write size = \"{size}\" or more")));
            return None;
        }
        Some(form)
    }

    /// The columns of the stream's table that its fields ask for: `Some(None)` for none.
    #[allow(clippy::option_option, reason = "no columns, and columns that are wrong, are different things")]
    fn columns(&mut self, config: &StreamConfig, built: &Built, path: &Path<'_>) -> Option<Option<Columns>> {
        let wanted = built.places.iter().find(|place| place.values.cell.is_some());
        let table = path.field("table");
        let (Some(file), Some(_)) = (&config.table, wanted) else {
            let (kind, problem, remedy) = match wanted {
                Some(place) => {
                    let problem = format!("{} is to be a column, and there is no table", place.name);
                    (ErrorKind::Missing, problem, "add table = \"values.csv\"")
                }
                None if config.table.is_some() => {
                    let problem = "no field is \"column\", so nothing is taken from it".to_owned();
                    (ErrorKind::Conflict, problem, "write \"column\" for the fields that it holds, or leave it out")
                }
                None if config.rows != RowOrder::Turn => {
                    (ErrorKind::Missing, "has no table to take rows of".to_owned(), "add table = \"values.csv\"")
                }
                None => return Some(None),
            };
            self.errors.push(self.element.error(kind, &table, problem).remedy(remedy));
            return None;
        };
        let input = match self.env.folder.map(|folder| folder.open_file(file)) {
            Some(Ok(input)) => input,
            Some(Err(problem)) => {
                self.wrong(ErrorKind::File, &table, problem);
                return None;
            }
            None => return Some(None),
        };
        let input = std::io::BufReader::new(input);
        let read = crate::table::read(&file.to_string(), input, &built.places, &config.port_sets);
        read.map(Some).map_err(|errors| self.errors.extend(errors)).ok()
    }

    fn replay(&mut self, config: &StreamConfig, file: &weir_config::FilePath, path: &Path<'_>) -> Option<Made> {
        for (given, key) in [
            (!config.layers.is_empty(), "layers"),
            (config.table.is_some(), "table"),
            (config.signature, "signature"),
            (config.via.is_some(), "via"),
        ] {
            if given {
                let error = self.element.error(
                    ErrorKind::Conflict,
                    &path.field(key),
                    "has no meaning where a capture file is sent",
                );
                self.errors.push(error.remedy("leave it out, or leave replay out"));
            }
        }
        let folder = self.env.folder?;
        let Capture { frames, remark } = match (self.read)(&folder.path().join(file.path())) {
            Ok(capture) if capture.frames.is_empty() => {
                self.wrong(ErrorKind::File, &path.field("replay"), "has no packets");
                return None;
            }
            Ok(capture) => capture,
            Err(problem) => {
                self.wrong(ErrorKind::File, &path.field("replay"), problem);
                return None;
            }
        };
        let sizes = frames.iter().map(|(_, frame)| frame.len() as u64 + CHECK_SEQUENCE).collect();
        let again = config.count.is_some() || config.duration.is_some();
        let recorded = config.timing == Timing::Recorded;
        let replay = Replay::new(frames, recorded, again);
        Some(Made { content: Content::Replay(replay), sizes, form: None, remark: remark.filter(|_| recorded) })
    }
}

/// What a stream consists of.
struct Made {
    content: Content,
    /// Lengths of frames by shape, with check sequences.
    sizes: Vec<u64>,
    form: Option<Form>,
    /// What is odd about it, if anything.
    remark: Option<String>,
}

/// Packets per second that a load stands for; of a mix, on the average of its lengths in equal parts.
fn asked_pps(load: Load, content: &Content, sizes: &[u64]) -> Option<f64> {
    match load {
        Load::Packets(rate) => Some(rate as f64),
        Load::Bits(rate) => {
            let mean = match content {
                Content::Template(template) => template.mean_length(),
                Content::Replay(_) => sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64,
            };
            Some(rate as f64 / ((mean + crate::load::PREAMBLE_AND_GAP as f64) * 8.0))
        }
        Load::Max | Load::Share(_) => None,
    }
}
