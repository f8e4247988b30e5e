(width) => {
  // What a program can see of a picture: sideways scrolling, text that is hard to read or cut, targets too small to touch.
  const wrong = [];
  const told = (one) => `${one.tagName.toLowerCase()}.${one.className?.baseVal ?? one.className} "${(one.textContent || one.getAttribute("aria-label") || "").trim().slice(0, 30)}"`;
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".react-flow, nav"));
    wrong.push(`scrolls sideways: ${document.documentElement.scrollWidth} of ${innerWidth}: ${wide.slice(0, 3).map(told).join(" | ")}`);
  }
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((one) => ((one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const seen = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = one.getBoundingClientRect();
    if (!own || !box.width || box.bottom < 0 || box.top > innerHeight || one.closest(".unseen, .skip, :disabled")) continue;
    const style = getComputedStyle(one);
    const under = ground(one);
    const text = over(parse(style.color), under);
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) {
      const line = `contrast ${ratio.toFixed(2)}: ${told(one)}`;
      if (!seen.has(line)) (seen.add(line), wrong.push(line));
    }
    if (size < 11.5) wrong.push(`small text ${size}px: ${told(one)}`);
  }
  // The text of a button or chip stands within its box, its padding kept; what is cut with an ellipsis says all in its title.
  for (const one of document.querySelectorAll("button, [role=tab], .top a, .chip, .count, .badge, .status, .score, kbd, summary, .card, .box .title, .box .sub, .row > span")) {
    const box = one.getBoundingClientRect();
    if (!box.width || box.bottom < 0 || box.top > innerHeight || one.closest(".unseen, .skip")) continue;
    const scale = box.width / one.offsetWidth || 1, style = getComputedStyle(one);
    const [left, right, top, bottom] = ["Left", "Right", "Top", "Bottom"].map((side) => (parseFloat(style[`padding${side}`]) + parseFloat(style[`border${side}Width`])) * scale);
    const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      if (!text.data.trim() || text.parentElement.closest(".unseen")) continue;
      const cut = [...function* () { for (let at = text.parentElement; at && at !== one.parentElement; at = at.parentElement) yield at; }()]
        .find((at) => getComputedStyle(at).textOverflow === "ellipsis" || getComputedStyle(at).webkitLineClamp !== "none");
      if (cut && (cut.scrollWidth <= cut.clientWidth || cut.closest("[title], .card"))) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      for (const line of range.getClientRects()) {
        if (line.left < box.left + left - 1 || line.right > box.right - right + 1 || line.top < box.top - 1 || line.bottom > box.bottom + 1) {
          wrong.push(`text of ${line.width.toFixed(0)} px sticks out of ${(box.width - left - right).toFixed(0)} px: ${told(one)}`);
          break;
        }
      }
    }
  }
  // Nothing that is used stands on another such thing.
  const used = [...document.querySelectorAll("button, a[href], input, select, textarea, summary")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.bottom > 0 && box.top < innerHeight && !one.closest(".react-flow, .unseen, .skip, .find ul, [inert]");
  });
  used.forEach((one, i) => {
    const a = one.getBoundingClientRect();
    for (const other of used.slice(i + 1)) {
      const b = other.getBoundingClientRect();
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1
        && !one.contains(other) && !other.contains(one) && one.closest("dialog") === other.closest("dialog")) wrong.push(`overlap: ${told(one)} and ${told(other)}`);
    }
  });
  if (width < 500) {
    for (const one of document.querySelectorAll("button, a[href], input, select, summary")) {
      const box = one.getBoundingClientRect();
      if (!box.width || box.bottom < 0 || box.top > innerHeight || one.closest(".react-flow__renderer, .unseen, .skip")) continue;
      const label = one.closest("label")?.getBoundingClientRect() ?? box;
      const inline = getComputedStyle(one).display === "inline";  // WCAG 2.5.8: targets in a sentence need not
      if (!inline && (Math.max(box.height, label.height) < 24 || Math.max(box.width, label.width) < 24)) wrong.push(`small target ${box.width.toFixed(0)}×${box.height.toFixed(0)}: ${told(one)}`);
    }
  }
  return [...new Set(wrong)].slice(0, 12);
}
