// Zoom, search and their address: #zoom=NUMBER&search=TEXT, so that a view can be linked to.
'use strict';
(() => {
  const WIDTH = 1200, LETTER = 6.7;
  const frames = [...document.querySelectorAll('.f')].map((g, number) => ({
    g, number, name: g.dataset.n, x: +g.dataset.x, w: +g.dataset.w, depth: +g.dataset.d,
    rect: g.querySelector('rect'), text: g.querySelector('text'), says: g.querySelector('title').textContent,
  }));
  const $ = (id) => document.getElementById(id);
  const EDGE = 1e-7;
  let zoomed = frames[0], wanted = '';

  const fitting = (name, width) => {
    const letters = Math.floor((width - 6) / LETTER), all = [...name];
    if (letters < 3) return '';
    return all.length <= letters ? name : all.slice(0, letters - 1).join('') + '…';
  };

  // Frames above the zoomed one are as wide as it is; those below it stay, pale, over the whole width.
  const place = (frame) => {
    const isUnder = frame.depth < zoomed.depth;
    const [from, to] = [zoomed.x, zoomed.x + zoomed.w];
    const overlaps = frame.x < to - EDGE && frame.x + frame.w > from + EDGE;
    const isShown = isUnder ? frame.x <= from + EDGE && frame.x + frame.w >= to - EDGE : overlaps;
    frame.g.style.display = isShown ? '' : 'none';
    if (!isShown) return;
    const x = isUnder ? 0 : (frame.x - from) / zoomed.w * WIDTH;
    const width = isUnder ? WIDTH : frame.w / zoomed.w * WIDTH;
    frame.rect.setAttribute('x', x);
    frame.rect.setAttribute('width', width);
    frame.text.setAttribute('x', x + 3);
    frame.text.textContent = fitting(frame.name, width);
    frame.g.classList.toggle('p', isUnder);
  };

  // A frame within a found one is not counted once more.
  const search = () => {
    let share = 0, count = 0, end = -1;
    for (const frame of [...frames].sort((a, b) => a.x - b.x || a.depth - b.depth)) {
      const isFound = wanted !== '' && frame.name.toLowerCase().includes(wanted.toLowerCase());
      frame.g.classList.toggle('m', isFound);
      if (!isFound) continue;
      count += 1;
      if (frame.x + EDGE >= end) {
        share += frame.w;
        end = frame.x + frame.w;
      }
    }
    $('found').textContent = wanted === '' ? '' : `${count} frames, ${(share * 100).toFixed(2)} % of everything`;
  };

  const draw = () => {
    frames.forEach(place);
    $('whole').setAttribute('visibility', zoomed === frames[0] ? 'hidden' : 'visible');
    search();
    const parts = new URLSearchParams();
    if (zoomed !== frames[0]) parts.set('zoom', zoomed.number);
    if (wanted !== '') parts.set('search', wanted);
    const hash = parts.toString();
    if (location.hash.slice(1) !== hash) history.replaceState(null, '', '#' + hash);
  };

  const read = () => {
    const parts = new URLSearchParams(location.hash.slice(1));
    zoomed = frames[+(parts.get('zoom') ?? 0)] ?? frames[0];
    wanted = parts.get('search') ?? '';
    $('search').value = wanted;
    draw();
  };

  for (const frame of frames) {
    frame.g.addEventListener('click', () => { zoomed = frame; draw(); });
    frame.g.addEventListener('mouseenter', () => { $('says').textContent = frame.says; });
  }
  $('whole').addEventListener('click', () => { zoomed = frames[0]; draw(); });
  $('search').addEventListener('input', (event) => { wanted = event.target.value; draw(); });
  addEventListener('hashchange', read);
  read();
})();
