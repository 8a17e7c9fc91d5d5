//! Throughput and the longest wait by threads, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::harness::Metric;
use crate::harness::stats::Row;

/// A curve: the points of one system.
type Curve<'a> = (&'a str, Vec<(f64, f64)>);

/// Draws two panels: a row of them for each amount of work.
pub(super) fn draw(path: &Path, rows: &[Row], mops: &Metric, longest: &Metric) -> anyhow::Result<()> {
    let mut loads: Vec<Vec<u64>> = Vec::new();
    for row in rows {
        if let Some((load, _)) = place(row)
            && !loads.contains(&load)
        {
            loads.push(load);
        }
    }
    loads.retain(|load| curves(rows, mops, load).iter().any(|(_, points)| points.len() > 1));
    let area = SVGBackend::new(path, (1100, 330 * loads.len().max(1) as u32)).into_drawing_area();
    area.fill(&WHITE).map_err(|why| anyhow!("cannot draw: {why}"))?;
    let panels = area.split_evenly((loads.len().max(1), 2));
    for (load, panels) in loads.iter().zip(panels.chunks(2)) {
        let what = format!("{} ns under the lock, {} ns without, {} CPUs", load[0], load[1], load[2]);
        panel(&panels[0], &format!("acquisitions in a us: {what}"), &curves(rows, mops, load))?;
        panel(&panels[1], "longest wait, ms", &curves(rows, longest, load))?;
    }
    area.present().map_err(|why| anyhow!("cannot write {}: {why}", path.display()))
}

/// The load of a row without its threads, and the threads.
fn place(row: &Row) -> Option<(Vec<u64>, u64)> {
    let value = |name| row.config.number(name).map(|value| value as u64);
    Some((vec![value("cs_ns")?, value("ncs_ns")?, value("cpus")?], value("threads")?))
}

fn curves<'a>(rows: &'a [Row], metric: &Metric, load: &[u64]) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    let scale = if metric.unit == "ns" { 1e-6 } else { 1.0 };
    for row in rows.iter().filter(|row| row.metric == metric.name) {
        let Some((its_load, threads)) = place(row) else { continue };
        if its_load != load {
            continue;
        }
        let point = (threads as f64, row.summary.median * scale);
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
            let series = LineSeries::new(points.iter().copied(), line).point_size(3);
            let series = chart.draw_series(series)?;
            series.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()
    };
    let drawn: Result<(), DrawingAreaErrorKind<_>> = draw();
    drawn.map_err(|why| anyhow!("cannot draw: {why}"))
}
