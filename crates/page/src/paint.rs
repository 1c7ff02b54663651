//! What plots look like: colours, sizes, text.

use plotters::coord::Shift;
use plotters::prelude::*;

/// Colours that people with any kind of sight can tell apart (Okabe and Ito, 2008), the faintest left out.
pub const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];

/// Width of a plot.
pub const WIDTH: u32 = 860;
/// Room for the legend, right of the plot, when there are several series.
pub const LEGEND: u32 = 190;
/// Axes and their text.
pub const GREY: RGBColor = RGBColor(110, 110, 110);
/// The grid.
pub const FAINT: RGBColor = RGBColor(225, 225, 225);

/// The size of text at axes.
const TEXT: i32 = 14;

/// What is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The color of the series with a number.
pub fn color(n: usize) -> RGBColor {
    COLORS.get(n % COLORS.len()).copied().unwrap_or(GREY)
}

/// Text at axes.
pub fn small() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&GREY)
}

/// A number at an axis, without zeroes that say nothing.
pub fn round(value: f64) -> String {
    let value = (value * 1e6).round() / 1e6;
    if value == 0.0 { "0".to_owned() } else { value.to_string() }
}

/// Draws the line of the legend for the series with a number.
///
/// # Errors
///
/// What the plotting library says.
pub fn legend(root: &Area<'_>, n: usize, name: &str, color: RGBColor) -> Result<(), String> {
    let (x, y) = (WIDTH as i32 - LEGEND as i32 + 16, 20 + 22 * n as i32);
    let mark = Rectangle::new([(x, y), (x + 14, y + 10)], color.filled());
    let text = Text::new(name.to_owned(), (x + 20, y - 2), small());
    root.draw(&mark).and_then(|()| root.draw(&text)).map_err(failed)
}

/// What the plotting library says.
pub fn failed(error: impl std::fmt::Display) -> String {
    error.to_string()
}
