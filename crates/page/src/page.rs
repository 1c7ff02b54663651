//! A page that needs nothing else: no scripts, no fonts, no network.

use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #ddd}\
h3{font-size:1rem;margin:1.5rem 0 .3rem}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #eee;vertical-align:top}\
td.n,th.n{text-align:right}td.n,td.k{white-space:nowrap}td small{color:#777}.wide{overflow-x:auto}\
pre,code{font:13px/1.4 ui-monospace,monospace;background:#f6f6f6}pre{padding:.8rem;overflow-x:auto}\
.partial{background:#fff3cd;border-left:4px solid #e69f00;padding:.5rem .8rem}\
figure{margin:1rem 0}figcaption{font-weight:600}figcaption small{font-weight:400;color:#777}\
svg{max-width:100%;height:auto}summary{cursor:pointer;color:#0072b2}.muted{color:#777}";

/// A page that is being put together.
#[derive(Clone, Debug)]
pub struct Page {
    text: String,
}

impl Page {
    /// Begins a page; its title is its first heading, too.
    pub fn new(title: &str) -> Page {
        let title = escaped(title);
        Page {
            text: format!(
                "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
                 <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n\
                 <h1>{title}</h1>\n"
            ),
        }
    }

    /// Adds HTML as it is: the caller has [`escaped`] what may hold anything.
    pub fn html(&mut self, html: &str) {
        self.text.push_str(html);
    }

    /// Adds a heading of a section.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "<h2>{}</h2>", escaped(text));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p>{}</p>", escaped(text));
    }

    /// Adds a paragraph that stands back.
    pub fn muted(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p class=\"muted\">{}</p>", escaped(text));
    }

    /// Adds lines as they are.
    pub fn preformatted(&mut self, text: &str) {
        let _ = writeln!(self.text, "<pre>{}</pre>", escaped(text));
    }

    /// Adds a warning that the result is not whole.
    pub fn partial(&mut self, reason: &str) {
        let _ = writeln!(self.text, "<p class=\"partial\"><b>Partial result.</b> {}</p>", escaped(reason));
    }

    /// Adds a plot: its caption, what is said beside that, and the SVG element.
    pub fn figure(&mut self, caption: &str, beside: &str, svg: &str) {
        let beside = if beside.is_empty() { String::new() } else { format!(" <small>{}</small>", escaped(beside)) };
        let _ = writeln!(self.text, "<figure><figcaption>{}{beside}</figcaption>\n{svg}</figure>", escaped(caption));
    }

    /// Ends the page.
    pub fn finish(mut self) -> String {
        self.text.push_str("</body></html>\n");
        self.text
    }
}

/// Text as HTML has it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The words as a shell would take them.
pub fn command_line(words: &[String]) -> String {
    let plain =
        |word: &String| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+%@".contains(c));
    let quoted = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
