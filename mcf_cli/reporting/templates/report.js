// Charts over the static figures, and filters over the list of claims. Without this script the page is whole all the same.
(() => {
  "use strict";
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // ---- charts ----
  const theme = (room) => {
    const style = getComputedStyle(document.documentElement);
    const [ink, soft, rule] = ["--ink", "--soft", "--rule"].map((name) => style.getPropertyValue(name).trim());
    const words = { labelColor: soft, titleColor: ink, labelFontSize: 11, titleFontSize: 12, titleFontWeight: 600 };
    return {
      background: "transparent", font: "system-ui, sans-serif", view: { stroke: null },
      axis: { ...words, gridColor: rule, domainColor: soft, tickColor: soft },
      legend: { ...words, symbolStrokeColor: soft, columns: room < 600 ? 1 : 3, orient: "bottom" }, header: { labelColor: ink, labelFontSize: 12, labelFontWeight: 600 },
    };
  };
  const fitted = (spec, room) => {
    const labels = spec.usermeta?.labels ?? 70, wide = spec.spec.width + labels;
    spec.columns = Math.max(1, Math.min(spec.columns || 1, Math.floor(room / wide)));
    const alone = new Set(spec.data.values.map((point) => point.data)).size < 2;
    if (room < wide || alone) spec.spec.width = Math.max(120, Math.min(760, room - labels));
    return spec;
  };
  const draw = async (place) => {
    const figure = place.closest("figure");
    place.hidden = false;
    const spec = fitted(structuredClone(charts[place.dataset.chart]), place.clientWidth);
    const warn = console.warn;
    console.warn = () => {};  // Vega-Lite warns of panels whose scales differ, which is what we ask for
    try {
      await vegaEmbed(place, spec, { renderer: "svg", actions: false, config: theme(place.clientWidth) });
      figure.classList.add("drawn");
    } catch (error) {
      place.hidden = true;  // the static figure stays
      console.error(error);
    } finally {
      console.warn = warn;
    }
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      draw(entry.target.querySelector("[data-chart]"));
    }
  }, { rootMargin: "600px" });
  if (window.vegaEmbed) {
    $$("figure:has([data-chart])").forEach((figure) => near.observe(figure));
    dark.addEventListener("change", () => $$("figure.drawn [data-chart]").forEach(draw));
  }

  // ---- claims ----
  const form = document.getElementById("filters");
  if (!form) return;
  const list = document.getElementById("claim-list"), shown = document.getElementById("shown");
  const claims = $$("details.claim", list);
  const has = (text, wanted) => !wanted || (text || "").split("|").includes(wanted);
  const filter = () => {
    const { verdict, category, item, data, loss, search } = Object.fromEntries(new FormData(form));
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const claim of claims) {
      const text = claim.textContent.toLowerCase();
      const kept = has(claim.dataset.verdict, verdict) && has(claim.dataset.category, category) && has(claim.dataset.items, item) && has(claim.dataset.data, data)
        && has(claim.dataset.losses, loss) && words.every((word) => text.includes(word));
      claim.hidden = !kept;
      count += kept;
    }
    shown.textContent = `${count} of ${claims.length} claims`;
  };
  const sort = () => {
    const by = form.elements.sort.value;
    const key = (claim) => by === "order" ? Number(claim.dataset.order) : claim.dataset[by];
    const ordered = [...claims].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      return (x < y ? -1 : x > y ? 1 : 0) || a.dataset.order - b.dataset.order;
    });
    list.append(...ordered);
  };
  form.hidden = false;
  form.addEventListener("input", () => { sort(); filter(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { sort(); filter(); }));
  $$("[data-choose]").forEach((chip) => chip.addEventListener("click", () => {
    form.elements.verdict.value = chip.dataset.choose;
    form.elements.category.value = "experiment";  // which is what the chips count
    filter();
    form.scrollIntoView();
  }));

  // The rows of a claim are the points of its items, on its data.
  const rowsOf = (claim) => claim.dataset.items.split("|").flatMap((item) => charts[item]?.data.values ?? [])
    .filter((point) => point.loss !== undefined && has(claim.dataset.data, point.data) && (!claim.dataset.losses
      || claim.dataset.losses.split("|").some((loss) => point.loss.toLowerCase().startsWith(loss))));
  const MOST_ROWS = 200;
  const number = (value) => value === undefined ? "" : String(value);
  const fill = (claim) => {
    const place = claim.querySelector(".rows");
    if (!place || place.childElementCount) return;
    const rows = rowsOf(claim);
    if (!rows.length) return;
    const table = document.createElement("table");
    const add = (cells, name) => {
      const line = table.insertRow();
      for (const cell of cells) {
        const box = document.createElement(name);
        if (name === "th") box.scope = "col";
        box.textContent = cell;
        line.append(box);
      }
    };
    add(["data", "loss", "method", "level", "value", "95% from", "to"], "th");
    rows.slice(0, MOST_ROWS).forEach((p) => add([p.data, p.loss, p.method, number(p.x), number(p.y ?? p.across), number(p.low), number(p.high)], "td"));
    place.append(table);
    if (rows.length > MOST_ROWS) {
      const note = document.createElement("p");
      note.textContent = `The first ${MOST_ROWS} of ${rows.length} rows. The others are in rows.csv beside the config.`;
      place.append(note);
    }
  };
  claims.forEach((claim) => claim.addEventListener("toggle", () => { if (claim.open) fill(claim); }));
  const follow = () => {
    const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    if (target?.matches("details.claim")) {
      if (target.hidden) { form.reset(); }
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  filter();
  follow();
})();
