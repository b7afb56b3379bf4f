"use strict";
// Listens to the pickers, draws the charts, and gives them the colours of the page.
(async () => {
  const find = (id) => document.getElementById(id);
  const listen = (controls, choose) => controls.forEach((control) => control.addEventListener("change", choose));

  // --- Loadings: all components are in the page, one is shown -------------------------------------

  const component = find("component");
  const show = () => {
    for (const part of document.querySelectorAll(".component")) {
      part.hidden = part.dataset.component !== component.value;
    }
  };
  listen([component], show);
  show();

  // --- Charts, one after the other once the page is there -----------------------------------------

  const charts = JSON.parse(find("charts").textContent);
  const figures = [];
  const named = (name) => {
    for (const page of Bokeh.documents) {
      const model = page.get_model_by_name(name);
      if (model != null) return model;
    }
    return null;
  };
  const draw = async (name) => {
    await Bokeh.embed.embed_item(charts[name], find(`chart-${name}`));
    const figure = named(name);
    figures.push(figure);
    paint(figure);
    if (matchMedia("(pointer: fine)").matches) {  // a mouse zooms by dragging, a finger scrolls the page
      figure.toolbar.tools.find((tool) => tool.type === "BoxZoomTool").active = true;
    }
  };
  const breath = () => new Promise((go) => setTimeout(go));

  // --- Colours -----------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = (figure) => {
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
    const font = "system-ui, sans-serif";
    const looks = {
      axis: {
        axis_label_text_color: ink, axis_label_text_font_style: "normal", axis_label_text_font: font,
        major_label_text_color: soft, major_label_text_font: font,
        axis_line_color: soft, major_tick_line_color: soft, minor_tick_line_color: null,
      },
      grid: { grid_line_color: line },
      span: { line_color: soft },
    };
    for (const part of [...figure.below, ...figure.left, ...figure.center]) {
      const kind = Object.keys(looks).find((kind) => part.type.toLowerCase().endsWith(kind));
      if (kind !== undefined) part.setv(looks[kind]);
    }
    document.documentElement.dataset.painted = dark.matches ? "dark" : "light";
  };
  dark.addEventListener("change", () => figures.forEach(paint));

  // --- Pickers of charts -------------------------------------------------------------------------

  const later = "convergence-log";  // drawn when it is asked for
  const chooseCurve = async () => {
    const shown = find("log").checked ? later : "convergence";
    for (const name of ["convergence", later]) find(`chart-${name}`).hidden = name !== shown;
    if (named(shown) === null) await draw(shown);
    const figure = named(shown), source = named(`${shown}-source`), against = find("against");
    source.data = { ...source.data, against: source.data[against.value] };
    figure.below[0].axis_label = against.selectedOptions[0].textContent;
    figure.reset.emit();
  };

  const correlation = (a, b) => {
    const mean = (v) => v.reduce((sum, x) => sum + x, 0) / v.length;
    const [ma, mb] = [mean(a), mean(b)];
    let ab = 0, aa = 0, bb = 0;
    for (let i = 0; i < a.length; i++) {
      const [da, db] = [a[i] - ma, b[i] - mb];
      ab += da * db; aa += da * da; bb += db * db;
    }
    return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : 0;
  };
  const chooseScores = () => {
    const figure = named("scores"), source = named("scores-source"), across = find("across"), up = find("up");
    const [x, y] = [source.data[across.value], source.data[up.value]];
    source.data = { ...source.data, x, y };
    figure.below[0].axis_label = across.selectedOptions[0].textContent;
    figure.left[0].axis_label = up.selectedOptions[0].textContent;
    const r = correlation([...x], [...y]).toFixed(3).replace(/^-(0\.0*)$/, "$1");
    find("said").textContent = `Correlation of the two among these: ${r}.`;
    figure.reset.emit();
  };

  if (document.readyState !== "complete") await new Promise((go) => addEventListener("load", go));
  for (const name of Object.keys(charts).filter((name) => name !== later)) {
    await breath();
    await draw(name);
    if (name === "convergence") {
      listen([find("against"), find("log")], chooseCurve);
      if (find("against").value !== "seconds" || find("log").checked) await chooseCurve();  // after a reload
    }
    if (name === "scores") {
      listen([find("across"), find("up")], chooseScores);
      chooseScores();
    }
  }
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
})();
