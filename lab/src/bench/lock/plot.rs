//! Throughput and the longest wait by threads, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::harness::Metric;
use crate::harness::stats::Row;

/// The points of one system.
type Curve<'a> = (&'a str, Vec<(f64, f64)>);

/// Draws two panels for each amount of work, beside each other.
pub(super) fn draw(path: &Path, rows: &[Row], mops: &Metric, longest: &Metric) -> anyhow::Result<()> {
    let mut loads: Vec<[f64; 3]> = Vec::new();
    for load in rows.iter().filter_map(load) {
        if !loads.contains(&load) && curves(rows, mops, load).iter().any(|(_, points)| points.len() > 1) {
            loads.push(load);
        }
    }
    let area = SVGBackend::new(path, (1100, 330 * loads.len().max(1) as u32)).into_drawing_area();
    area.fill(&WHITE).map_err(|why| anyhow!("cannot draw: {why}"))?;
    for (&load, panels) in loads.iter().zip(area.split_evenly((loads.len().max(1), 2)).chunks(2)) {
        let what = format!("{} ns under the lock, {} ns without, {} CPUs", load[0], load[1], load[2]);
        panel(&panels[0], &format!("acquisitions per us: {what}"), &curves(rows, mops, load))?;
        panel(&panels[1], "longest wait, ms", &curves(rows, longest, load))?;
    }
    area.present().map_err(|why| anyhow!("cannot write {}: {why}", path.display()))
}

/// Returns the parameters of a row other than its threads.
fn load(row: &Row) -> Option<[f64; 3]> {
    let value = |name| row.config.number(name);
    Some([value("cs_ns")?, value("ncs_ns")?, value("cpus")?])
}

fn curves<'a>(rows: &'a [Row], metric: &Metric, wanted: [f64; 3]) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    let scale = if metric.unit == "ns" { 1e-6 } else { 1.0 };
    for row in rows.iter().filter(|row| row.metric == metric.name && load(row) == Some(wanted)) {
        let point = (row.config.number("threads").unwrap_or(0.0), row.summary.median * scale);
        match curves.iter_mut().find(|(name, _)| *name == row.system) {
            Some((_, points)) => points.push(point),
            None => curves.push((&row.system, vec![point])),
        }
    }
    curves
}

fn panel(area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, curves: &[Curve<'_>]) -> anyhow::Result<()> {
    let draw = || {
        let points = || curves.iter().flat_map(|(_, points)| points);
        let most = points().map(|point| point.1).fold(0.01, f64::max);
        let least = points().map(|point| point.1).fold(most, f64::min).max(most * 1e-5);
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(28)
            .y_label_area_size(55)
            .build_cartesian_2d((1_f64..80_f64).log_scale(), (least * 0.8..most * 1.3).log_scale())?;
        chart.configure_mesh().x_desc("threads").light_line_style(WHITE).draw()?;
        for (index, (name, points)) in curves.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let line = color.stroke_width(if index == 0 { 3 } else { 1 });
            let series = chart.draw_series(LineSeries::new(points.iter().copied(), line).point_size(3))?;
            series.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()
    };
    let drawn: Result<(), DrawingAreaErrorKind<_>> = draw();
    drawn.map_err(|why| anyhow!("cannot draw: {why}"))
}
