//! Experiments: a configuration that stays, parameters with their values, and figures for every combination, several times.

use std::collections::BTreeMap;

use weir_config::{Kind, Nanos, Setting, Type, choice, config};

use crate::record::{Form, Plot, Value};

impl Setting for Value {
    fn describe() -> Type {
        Type::Either(vec![bool::describe(), f64::describe(), String::describe()])
    }

    fn read(value: &weir_config::Value) -> Option<Self> {
        match value {
            weir_config::Value::Bool(flag) => Some(Value::Flag(*flag)),
            weir_config::Value::Integer(number) => Some(Value::Number(*number as f64)),
            weir_config::Value::Number(number) => Some(Value::Number(*number)),
            other => other.as_text().map(Value::from),
        }
    }

    fn write(&self) -> weir_config::Value {
        match self {
            Value::Flag(flag) => weir_config::Value::Bool(*flag),
            Value::Number(number) if number.fract() == 0.0 => weir_config::Value::Integer(*number as i64),
            Value::Number(number) => weir_config::Value::Number(*number),
            Value::Text(text) => weir_config::Value::Text(text.clone()),
        }
    }
}

choice! {
    /// The form of a plot.
    pub enum PlotForm {
        /// A line with a mark for each median, and a bar from the least to the most.
        Lines = "lines",
        /// A bar for each median.
        Bars = "bars",
    }
}

config! {
    /// A parameter and the values that it takes in turn.
    pub struct Parameter {
        /// What varies: `case`, `fill`, `transmit`, `workers`, `pages`, a number that the case leaves open (`frame`), or a key of the
        /// configuration with the kind of its declaration (`engine.idle`).
        pub name: String = required, live, length(1..=64);
        /// Its values.
        pub values: Vec<Value> = required, live, length(1..=256);
    }
}

config! {
    /// A plot in the report.
    pub struct PlotConfig {
        /// What it shows.
        pub title: String = required, live;
        /// The parameter along the first axis.
        pub x: String = required, live;
        /// The figure along the second: `own`, `whole`, `rate` ...
        pub y: String = required, live;
        /// The parameter that tells the lines apart.
        pub by: Option<String> = optional, live;
        /// Its form.
        pub form: PlotForm = default(PlotForm::Lines), live;
    }
}

config! {
    /// Something to be found out: what is measured, what varies, how often.
    pub struct ExperimentConfig {
        /// What it is, in a few words.
        pub title: String = required, live, length(1..=200);
        /// What is asked, and what others found: a paragraph of the report.
        pub about: String = default(String::new()), live, length(0..=4000);
        /// What is measured: a function, over ports in memory; or `sockets`, an echo by UDP through the kernel.
        pub measures: String = required, live, length(1..=64);
        /// Parameters that stay as they are, by name.
        pub fixed: BTreeMap<String, Value> = empty, live, length(0..=64);
        /// Parameters that vary, the slowest first. Every combination is measured.
        pub parameters: Vec<Parameter> = required, live, length(1..=8);
        /// How often each combination is measured. All combinations are measured once before any is measured again.
        pub runs: u32 = default(5), live, range(1..=1000);
        /// How long each measurement takes, start and warm-up not counted.
        pub window: Nanos = default(Nanos::new(300_000_000)), live, range(Nanos::new(1_000_000)..=Nanos::new(600_000_000_000));
        /// What to draw.
        pub plots: Vec<PlotConfig> = empty, live, length(0..=16);
    }
}

/// The declaration of an experiment in a script.
pub fn experiment_kind() -> Kind {
    Kind::named("experiment", ExperimentConfig::schema())
}

/// Combinations that an experiment has at most.
const MOST_POINTS: usize = 4096;

/// A value for each parameter.
pub type Combination = BTreeMap<String, Value>;

impl ExperimentConfig {
    /// Every combination of the parameters, those that stay included, the first parameter the slowest to change.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the parameters and plots, a sentence each.
    pub fn combinations(&self) -> Result<Vec<Combination>, Vec<String>> {
        let mut wrong = self.faults();
        let count =
            self.parameters.iter().map(|parameter| parameter.values.len()).try_fold(1_usize, usize::checked_mul);
        if count.is_none_or(|count| count > MOST_POINTS) {
            wrong.push(format!("parameters: there are more than {MOST_POINTS} combinations; leave some values out"));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let mut all = vec![self.fixed.clone()];
        for parameter in &self.parameters {
            let with = |one: &Combination| {
                let one = one.clone();
                parameter.values.iter().map(move |value| {
                    let mut one = one.clone();
                    one.insert(parameter.name.clone(), value.clone());
                    one
                })
            };
            all = all.iter().flat_map(with).collect();
        }
        Ok(all)
    }

    fn faults(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (n, parameter) in self.parameters.iter().enumerate() {
            let name = &parameter.name;
            if self.fixed.contains_key(name) {
                wrong.push(format!("parameters: {name} both varies and is fixed; take it out of one"));
            }
            if self.parameters.iter().take(n).any(|other| other.name == *name) {
                wrong.push(format!("parameters: {name} is there twice; put all its values into one"));
            }
        }
        for plot in &self.plots {
            for axis in std::iter::once(&plot.x).chain(&plot.by) {
                if !self.parameters.iter().any(|parameter| parameter.name == *axis) {
                    wrong.push(format!(
                        "plots: \"{}\" is drawn by {axis}, which is no parameter that varies",
                        plot.title
                    ));
                }
            }
        }
        wrong
    }

    /// The names of the parameters that vary.
    pub fn names(&self) -> Vec<String> {
        self.parameters.iter().map(|parameter| parameter.name.clone()).collect()
    }

    /// The plots, as a record has them.
    pub fn drawn(&self) -> Vec<Plot> {
        let plot = |plot: &PlotConfig| Plot {
            title: plot.title.clone(),
            form: if plot.form == PlotForm::Bars { Form::Bars } else { Form::Lines },
            x: plot.x.clone(),
            y: plot.y.clone(),
            by: plot.by.clone(),
        };
        self.plots.iter().map(plot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(parameters: &[(&str, &[f64])]) -> ExperimentConfig {
        let parameter = |(name, values): &(&str, &[f64])| Parameter {
            name: (*name).to_owned(),
            values: values.iter().map(|value| Value::Number(*value)).collect(),
        };
        ExperimentConfig {
            title: "t".to_owned(),
            about: String::new(),
            measures: "m".to_owned(),
            fixed: BTreeMap::from([("c".to_owned(), Value::from("x"))]),
            parameters: parameters.iter().map(parameter).collect(),
            runs: 1,
            window: Nanos::new(1_000_000),
            plots: Vec::new(),
        }
    }

    #[test]
    fn every_combination_is_there_once_and_in_order() {
        let all = experiment(&[("a", &[1.0, 2.0]), ("b", &[3.0, 4.0, 5.0])]).combinations().unwrap();
        let pairs: Vec<String> = all.iter().map(|one| format!("{}{}{}", one["a"], one["b"], one["c"])).collect();
        assert_eq!(pairs, ["13x", "14x", "15x", "23x", "24x", "25x"]);
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let mut wrong = experiment(&[("a", &[1.0]), ("a", &[1.0]), ("c", &[1.0])]);
        let (title, x, y) = ("p".to_owned(), "z".to_owned(), "y".to_owned());
        wrong.plots.push(PlotConfig { title, x, y, by: None, form: PlotForm::Bars });
        let said = wrong.combinations().unwrap_err();
        assert_eq!(said.len(), 3, "{said:?}");
        let many: Vec<f64> = (0..65).map(f64::from).collect();
        let said = experiment(&[("a", &many), ("b", &many)]).combinations().unwrap_err();
        assert!(said[0].contains("4096"), "{said:?}");
    }

    #[test]
    fn the_schema_is_sound() {
        assert_eq!(ExperimentConfig::schema().defects(), Vec::<String>::new());
    }
}
