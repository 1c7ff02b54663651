//! Plots as SVG, from a record's points.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use weir_page::paint::{Area, FAINT, GREY, LEGEND, WIDTH, color, failed, legend, round, small};

use crate::record::{Form, Plot, Record, Value};
use crate::summary::Summary;

const HEIGHT: u32 = 380;
/// A line of a plot: its name and, in the order of the first axis, the position of each value and what was measured there.
struct Series {
    name: String,
    color: RGBColor,
    marks: Vec<(f64, Summary)>,
}

/// Where the values of the first axis lie. As a coordinate, it has its ticks there and nowhere else.
#[derive(Clone)]
struct Places {
    ticks: Vec<(f64, String)>,
    from: f64,
    to: f64,
}

impl Places {
    /// Numbers lie where they belong, on a logarithmic axis if they span more than a factor of ten; words side by side.
    fn of(values: &[&Value], form: Form) -> Places {
        let number = |value: &&Value| if let Value::Number(number) = value { Some(*number) } else { None };
        let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
        let at: Vec<f64> = match numbers.filter(|_| form == Form::Lines) {
            Some(numbers) if logarithmic(&numbers) => numbers.iter().map(|number| number.log2()).collect(),
            Some(numbers) => numbers,
            // Bars lie, and the first value is on top.
            None if form != Form::Lines => (0..values.len()).rev().map(|n| n as f64).collect(),
            None => (0..values.len()).map(|n| n as f64).collect(),
        };
        let least = at.iter().copied().fold(f64::INFINITY, f64::min);
        let most = at.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        let margin = if form == Form::Lines { ((most - least) * 0.04).max(1e-9) } else { 0.5 };
        let ticks = at.into_iter().zip(values.iter().map(|value| tick(value))).collect();
        Places { ticks, from: least - margin, to: most + margin }
    }

    fn at(&self, value: &Value) -> Option<f64> {
        let text = tick(value);
        self.ticks.iter().find(|(_, known)| *known == text).map(|(at, _)| *at)
    }
}

impl Ranged for Places {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.from) / (self.to - self.from);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Places {
    fn format_ext(&self, value: &f64) -> String {
        let found = self.ticks.iter().find(|(at, _)| (at - value).abs() < 1e-9);
        found.map_or_else(String::new, |(_, text)| text.clone())
    }
}

fn logarithmic(numbers: &[f64]) -> bool {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(0.0, f64::max);
    least > 0.0 && most / least >= 10.0
}

/// A value at an axis: large numbers in short.
fn tick(value: &Value) -> String {
    let short = |number: f64, unit: &str| format!("{}{unit}", (number * 10.0).round() / 10.0);
    match value {
        Value::Number(number) if *number >= 1e6 => short(number / 1e6, "M"),
        Value::Number(number) if *number >= 1e4 => short(number / 1e3, "k"),
        other => other.to_string(),
    }
}

/// The plot as an SVG element; `None` if there is nothing to draw.
///
/// # Errors
///
/// What the plotting library says.
pub fn svg(record: &Record, plot: &Plot) -> Result<Option<String>, String> {
    let values = record.values(&plot.x);
    let places = Places::of(&values, plot.form);
    let series = if plot.form == Form::Stacked { parts(record, plot, &places) } else { series(record, plot, &places) };
    if series.iter().all(|series| series.marks.is_empty()) {
        return Ok(None);
    }
    let mut text = String::new();
    let height = match plot.form {
        Form::Lines => HEIGHT,
        Form::Bars => 90 + (22 * series.len().max(1) * values.len()).clamp(44, 2000) as u32,
        Form::Stacked => 90 + (26 * values.len()).max(22 * series.len()).clamp(44, 2000) as u32,
    };
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let drawn = match plot.form {
            Form::Lines => lines(&root, record, plot, &places, &series),
            Form::Bars => bars(&root, record, plot, &places, &series),
            Form::Stacked => stacked(&root, record, plot, &places, &series),
        };
        drawn.and_then(|()| root.present().map_err(failed))?;
    }
    Ok(Some(text))
}

fn series(record: &Record, plot: &Plot, places: &Places) -> Vec<Series> {
    let groups: Vec<Option<&Value>> = match &plot.by {
        Some(by) => record.values(by).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let of_group = |(n, group): (usize, Option<&Value>)| {
        let belongs =
            |point: &&crate::record::Point| plot.by.as_ref().is_none_or(|by| point.parameters.get(by) == group);
        let mark = |point: &crate::record::Point| {
            let figure = point.figure(&plot.y).filter(|figure| !figure.samples.is_empty())?;
            Some((places.at(point.parameters.get(&plot.x)?)?, figure.summary))
        };
        let mut marks: Vec<(f64, Summary)> = record.points.iter().filter(belongs).filter_map(mark).collect();
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = match (&plot.by, group) {
            (Some(by), Some(value @ (Value::Number(_) | Value::Flag(_)))) => format!("{by} {}", tick(value)),
            (_, Some(value)) => value.to_string(),
            _ => String::new(),
        };
        Series { name, color: color(n), marks }
    };
    groups.into_iter().enumerate().map(of_group).collect()
}

/// What adds up: a series for each figure whose name begins so, in the order in which they come, named by the rest.
fn parts(record: &Record, plot: &Plot, places: &Places) -> Vec<Series> {
    let mut parts: Vec<Series> = Vec::new();
    for point in &record.points {
        let Some(at) = point.parameters.get(&plot.x).and_then(|value| places.at(value)) else { continue };
        for figure in &point.figures {
            let Some(name) = figure.name.strip_prefix(&plot.y) else { continue };
            let known = parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
                parts.push(Series { name: name.to_owned(), color: color(parts.len()), marks: Vec::new() });
                parts.len() - 1
            });
            parts.iter_mut().skip(known).take(1).for_each(|part| part.marks.push((at, figure.summary)));
        }
    }
    parts
}

/// A little more than the most that is drawn.
fn ceiling(series: &[Series]) -> f64 {
    let most = series.iter().flat_map(|series| &series.marks).map(|(_, summary)| summary.max).fold(0.0, f64::max);
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

/// The least that is drawn: 0, unless something is below.
fn floor(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.marks).map(|(_, summary)| summary.min).fold(0.0, f64::min) * 1.08
}

fn axis_title(plot: &Plot, record: &Record) -> String {
    let figures = record.points.iter().flat_map(|point| &point.figures);
    let stacked = |name: &str| plot.form == Form::Stacked && name.starts_with(&plot.y);
    match figures.into_iter().find(|figure| stacked(&figure.name)) {
        Some(figure) => figure.unit.clone(),
        None if record.unit(&plot.y).is_empty() => plot.y.clone(),
        None => format!("{}, {}", plot.y, record.unit(&plot.y)),
    }
}

fn lines(root: &Area<'_>, record: &Record, plot: &Plot, places: &Places, series: &[Series]) -> Result<(), String> {
    let named = series.len() > 1;
    let mut chart = ChartBuilder::on(root)
        .margin(10)
        .margin_right(if named { LEGEND } else { 20 })
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(places.clone(), floor(series)..ceiling(series))
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(GREY)
        .label_style(small())
        .x_desc(plot.x.as_str())
        .y_desc(axis_title(plot, record))
        .y_label_formatter(&|value| round(*value))
        .draw()
        .map_err(failed)?;
    for (n, series) in series.iter().enumerate() {
        let color = series.color;
        let ranges = series.marks.iter().map(|(at, s)| vec![(*at, s.min), (*at, s.max)]);
        let ranges = ranges.map(|range| PathElement::new(range, color.mix(0.45).stroke_width(2)));
        chart.draw_series(ranges).map_err(failed)?;
        let medians: Vec<(f64, f64)> = series.marks.iter().map(|(at, summary)| (*at, summary.median)).collect();
        let line = PathElement::new(medians.clone(), color.stroke_width(2));
        chart.draw_series(std::iter::once(line)).map_err(failed)?;
        chart.draw_series(medians.into_iter().map(|mark| Circle::new(mark, 4, color.filled()))).map_err(failed)?;
        if named {
            legend(root, n, &series.name, series.color)?;
        }
    }
    Ok(())
}

fn bars(root: &Area<'_>, record: &Record, plot: &Plot, places: &Places, series: &[Series]) -> Result<(), String> {
    let named = series.len() > 1;
    let mut chart = lying(root, record, plot, places, floor(series)..ceiling(series), named)?;
    let thick = 0.8 / series.len().max(1) as f64;
    for (n, series) in series.iter().enumerate() {
        let color = series.color;
        let middle = |at: f64| at + 0.4 - thick * (n as f64 + 0.5);
        let bar = |(at, s): &(f64, Summary)| {
            let y = middle(*at);
            Rectangle::new([(0.0, y - thick * 0.42), (s.median, y + thick * 0.42)], color.mix(0.8).filled())
        };
        let range = |(at, s): &(f64, Summary)| {
            PathElement::new(vec![(s.min, middle(*at)), (s.max, middle(*at))], BLACK.mix(0.6).stroke_width(2))
        };
        chart.draw_series(series.marks.iter().map(bar)).map_err(failed)?;
        chart.draw_series(series.marks.iter().map(range)).map_err(failed)?;
        if named {
            legend(root, n, &series.name, series.color)?;
        }
    }
    Ok(())
}

fn stacked(root: &Area<'_>, record: &Record, plot: &Plot, places: &Places, parts: &[Series]) -> Result<(), String> {
    let ends = stack(places, parts);
    let most = ends.iter().flatten().map(|(_, _, to)| *to).fold(0.0, f64::max);
    let mut chart = lying(root, record, plot, places, 0.0..most.max(1.0) * 1.04, true)?;
    for (n, (part, ends)) in parts.iter().zip(&ends).enumerate() {
        let fill = part.color.mix(0.8).filled();
        let bar = |(at, from, to): &(f64, f64, f64)| Rectangle::new([(*from, at - 0.36), (*to, at + 0.36)], fill);
        chart.draw_series(ends.iter().map(bar)).map_err(failed)?;
        legend(root, n, &part.name, part.color)?;
    }
    Ok(())
}

/// Of each part, at each place where it is, from where to where it reaches: from the end of those before it.
fn stack(places: &Places, parts: &[Series]) -> Vec<Vec<(f64, f64, f64)>> {
    let mut heights = vec![0.0; places.ticks.len()];
    let mut end = |(at, summary): &(f64, Summary)| {
        let height = places.ticks.iter().zip(&mut heights).find(|((tick, _), _)| tick == at)?.1;
        let from = *height;
        *height += summary.median.max(0.0);
        Some((*at, from, *height))
    };
    parts.iter().map(|part| part.marks.iter().filter_map(&mut end).collect()).collect()
}

/// Bars that lie.
type Lying<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, Places>>;

/// What bars are drawn on, with its axes.
fn lying<'a>(
    root: &Area<'a>,
    record: &Record,
    plot: &Plot,
    places: &Places,
    along: Range<f64>,
    named: bool,
) -> Result<Lying<'a>, String> {
    let longest = places.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let mut chart = ChartBuilder::on(root)
        .margin(10)
        .margin_right(if named { LEGEND } else { 70 })
        .x_label_area_size(48)
        .y_label_area_size((longest as u32 * 8 + 14).clamp(40, 300))
        .build_cartesian_2d(along, places.clone())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(GREY)
        .label_style(small())
        .x_desc(axis_title(plot, record))
        .x_label_formatter(&|value| round(*value))
        .draw()
        .map_err(failed)?;
    Ok(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_one_on_another_where_they_are() {
        let words = ["one", "two"].map(|word| Value::Text(word.to_owned()));
        let places = Places::of(&words.iter().collect::<Vec<_>>(), Form::Stacked);
        let [one, two] = words.map(|word| places.at(&word).unwrap_or_default());
        let part = |marks: &[(f64, f64)]| Series {
            name: String::new(),
            color: color(0),
            marks: marks.iter().map(|(at, height)| (*at, Summary::of(&[*height]))).collect(),
        };
        let parts = [part(&[(one, 3.0), (two, 5.0)]), part(&[(two, 7.0)]), part(&[(one, 1.0), (two, 2.0)])];
        let expected = vec![
            vec![(one, 0.0, 3.0), (two, 0.0, 5.0)],
            vec![(two, 5.0, 12.0)],
            vec![(one, 3.0, 4.0), (two, 12.0, 14.0)],
        ];
        assert_eq!(stack(&places, &parts), expected);
    }
}
