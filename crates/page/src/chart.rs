//! A plot of numbers over numbers.

use std::iter::once;
use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::paint::{FAINT, GREY, LEGEND, WIDTH, color, failed, legend, round, small};

const HEIGHT: u32 = 300;

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A line from each to the next.
    Line,
    /// A broken line from each to the next, to compare others with.
    Dashes,
    /// A line that keeps each value until the next.
    Steps,
    /// A bar from 0 to each value, so wide, to the right of where it begins.
    Bars(f64),
}

/// Points that belong together, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What the legend says, which is there if there are several curves.
    pub name: String,
    /// How they are drawn.
    pub shape: Shape,
    /// Where they are.
    pub points: Vec<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub title: String,
    /// From where to where; without, as far as the points go, and to 0 on the second axis.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis as far as the points go.
    pub fn of(title: impl Into<String>) -> Axis {
        Axis { title: title.into(), range: None }
    }
}

/// A plot of numbers over numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The axis below.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// What is drawn, the first below the others.
    pub curves: Vec<Curve>,
}

impl Chart {
    /// The plot as an SVG element; `None` if there is nothing to draw.
    ///
    /// # Errors
    ///
    /// What the plotting library says.
    pub fn svg(&self) -> Result<Option<String>, String> {
        let drawable = |curve: &&Curve| curve.points.iter().any(|(x, y)| x.is_finite() && y.is_finite());
        let curves: Vec<&Curve> = self.curves.iter().filter(drawable).collect();
        if curves.is_empty() {
            return Ok(None);
        }
        let mut text = String::new();
        self.draw(&SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area(), &curves)?;
        Ok(Some(text))
    }

    fn draw(&self, root: &crate::paint::Area<'_>, curves: &[&Curve]) -> Result<(), String> {
        let named = curves.len() > 1;
        let (width, height) = (self.width(curves), self.height(curves));
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .margin_right(if named { LEGEND } else { 24 })
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d(width.clone(), height.clone())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(GREY)
            .label_style(small())
            .x_desc(self.x.title.as_str())
            .y_desc(self.y.title.as_str())
            .x_label_formatter(&|value| round(*value))
            .y_label_formatter(&|value| round(*value))
            .draw()
            .map_err(failed)?;
        for (n, curve) in curves.iter().enumerate() {
            let color = color(n);
            let points = curve.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
            let line = color.stroke_width(2);
            match curve.shape {
                Shape::Line => chart.draw_series(once(PathElement::new(points.collect::<Vec<_>>(), line))).map(drop),
                Shape::Dashes => {
                    chart.draw_series(once(DashedPathElement::new(points.collect::<Vec<_>>(), 6, 4, line))).map(drop)
                }
                Shape::Steps => {
                    chart.draw_series(once(PathElement::new(steps(points).collect::<Vec<_>>(), line))).map(drop)
                }
                Shape::Bars(wide) => {
                    let bar = |(x, y)| {
                        let (left, right) = (width.start.max(x), width.end.min(x + wide));
                        Rectangle::new([(left, 0.0), (right, y)], color.mix(0.8).filled())
                    };
                    let seen = points.filter(|(x, _)| width.contains(x) || width.contains(&(x + wide)));
                    chart.draw_series(seen.map(bar)).map(drop)
                }
            }
            .map_err(failed)?;
            if named {
                legend(root, n, &curve.name, color)?;
            }
        }
        root.present().map_err(failed)
    }

    fn width(&self, curves: &[&Curve]) -> Range<f64> {
        let ends = |curve: &&Curve| {
            let wide = if let Shape::Bars(wide) = curve.shape { wide } else { 0.0 };
            curve.points.iter().flat_map(move |(x, _)| [*x, x + wide]).collect::<Vec<_>>()
        };
        span(self.x.range, curves.iter().flat_map(ends), 0.0)
    }

    fn height(&self, curves: &[&Curve]) -> Range<f64> {
        span(self.y.range, curves.iter().flat_map(|curve| curve.points.iter().map(|(_, y)| *y)).chain([0.0]), 0.06)
    }
}

/// From the least to the most, and a share more.
fn span(given: Option<(f64, f64)>, values: impl Iterator<Item = f64>, more: f64) -> Range<f64> {
    let found = values.filter(|value| value.is_finite()).fold(None, |ends: Option<(f64, f64)>, value| {
        Some(ends.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
    });
    let (least, most) = given.or(found).unwrap_or((0.0, 1.0));
    if most > least { least..most + (most - least) * more } else { least..least + 1.0 }
}

fn steps(points: impl Iterator<Item = (f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    let mut before: Option<f64> = None;
    points.flat_map(move |(x, y)| {
        let corner = before.replace(y).map(|before| (x, before));
        corner.into_iter().chain([(x, y)])
    })
}
