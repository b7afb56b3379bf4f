"use strict";
// Draws the charts, gives them the colours of the page, and listens to the pickers.
(async () => {
  const find = (id) => document.getElementById(id);
  const charts = JSON.parse(find("charts").textContent);
  const named = (name) => {
    for (const page of Bokeh.documents) {
      const model = page.get_model_by_name(name);
      if (model != null) return model;
    }
    return null;
  };
  const figures = [];
  const draw = async (name) => {
    await Bokeh.embed.embed_item(charts[name], find(`chart-${name}`));
    figures.push(named(name));
  };
  const later = "convergence-log";  // drawn when it is asked for
  await Promise.all(Object.keys(charts).filter((name) => name !== later).map(draw));

  // --- Colours -----------------------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) =>
      style.getPropertyValue(name).trim());
    const looks = {
      axis: {
        axis_label_text_color: ink, axis_label_text_font_style: "normal", axis_label_text_font: "system-ui, sans-serif",
        major_label_text_color: soft, major_label_text_font: "system-ui, sans-serif", axis_line_color: soft,
        major_tick_line_color: soft, minor_tick_line_color: null,
      },
      grid: { grid_line_color: line },
      span: { line_color: soft },
    };
    for (const figure of figures) {
      figure.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: null });
      if ("border_line_color" in figure.properties) figure.border_line_color = null;  // newer Bokeh has one
      for (const part of [...figure.below, ...figure.left, ...figure.center]) {
        const kind = Object.keys(looks).find((kind) => part.type.toLowerCase().endsWith(kind));
        if (kind !== undefined) part.setv(looks[kind]);
      }
    }
    document.documentElement.dataset.painted = dark.matches ? "dark" : "light";
  };
  dark.addEventListener("change", paint);
  paint();

  // --- With a mouse, dragging zooms; with a finger it scrolls the page -----------------------------

  const equip = (figure) => {
    if (!matchMedia("(pointer: fine)").matches) return;
    figure.toolbar.tools.find((tool) => tool.type === "BoxZoomTool").active = true;
  };
  figures.forEach(equip);

  // --- Pickers -----------------------------------------------------------------------------------

  const reset = (figure) => figure.reset.emit();
  const against = find("against"), log = find("log");
  if (against !== null) {
    const choose = async () => {
      const shown = log.checked ? later : "convergence";
      for (const name of ["convergence", later]) find(`chart-${name}`).hidden = name !== shown;
      if (named(shown) === null) {
        await draw(shown);
        equip(named(shown));
        paint();
      }
      const figure = named(shown), source = named(`${shown}-source`);
      source.data = { ...source.data, against: source.data[against.value] };
      figure.below[0].axis_label = against.selectedOptions[0].textContent;
      reset(figure);
    };
    against.addEventListener("change", choose);
    log.addEventListener("change", choose);
    if (against.value !== "seconds" || log.checked) await choose();  // as before a reload
  }

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
  const across = find("across"), up = find("up");
  if (across !== null) {
    const choose = () => {
      const figure = named("scores"), source = named("scores-source");
      const [x, y] = [source.data[across.value], source.data[up.value]];
      source.data = { ...source.data, x, y };
      figure.below[0].axis_label = across.selectedOptions[0].textContent;
      figure.left[0].axis_label = up.selectedOptions[0].textContent;
      const r = correlation([...x], [...y]).toFixed(3).replace(/^-(0\.0*)$/, "$1");
      find("said").textContent = `Correlation of the two among these: ${r}.`;
      reset(figure);
    };
    const other = up.querySelector("optgroup:nth-of-type(2) option") ?? up.options[1] ?? up.options[0];
    up.value = other.value;
    across.addEventListener("change", choose);
    up.addEventListener("change", choose);
    choose();
  }

  const component = find("component");
  const show = () => {
    for (const part of document.querySelectorAll(".component")) {
      part.hidden = part.dataset.component !== component.value;
    }
  };
  component.addEventListener("change", show);
  show();
  document.documentElement.dataset.ready = "yes";
})();
