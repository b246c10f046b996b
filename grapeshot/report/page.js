// The table and the gallery of a report, from the data in the page. Text goes into the page by
// textContent and attributes only. Keys of the data are those of page_data.cpp.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const SVG = 'http://www.w3.org/2000/svg';

  // make('p', {class: 'quiet'}, 'text', child, ...); null children are left out.
  function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === 'onclick' || key === 'oninput') element.addEventListener(key.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(key, value);
    }
    for (const child of children) if (child !== null) element.append(child);
    return element;
  }
  const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const text = value => value === null || value === undefined ? '' : String(value);
  const plural = (n, one, many) => n + ' ' + (n === 1 ? one : many);
  const noun = data.noun;
  const one = noun.slice(0, -1);

  // --- a finding ---------------------------------------------------------------------------------

  function images(finding) {
    const names = finding.p ? ['first run', 'second run', 'difference'] : ['original', 'counterexample', 'difference'];
    if (finding.a) names[2] += ' ×' + Number(finding.a.toPrecision(2));
    return make('div', {class: 'pictures'}, ...finding.g.map((picture, i) => make('figure', {},
      make('img', {src: data.pictures[picture], alt: names[i] + ' of ' + finding.id, loading: 'lazy'}),
      make('figcaption', {}, names[i]))));
  }

  // Values of the original and of the counterexample, one over the other.
  function series(finding) {
    const o = finding.o.map(Number), x = finding.x.map(Number);
    const all = o.concat(x).filter(Number.isFinite);
    const least = Math.min(...all), span = Math.max(...all) - least || 1, n = o.length;
    const height = v => (58 - 56 * (v - least) / span).toFixed(1);
    const shapes = [];
    if (n <= 40) {
      const zero = height(Math.min(Math.max(0, least), least + span));
      const bar = (name, v, at) => draw('rect', {class: name, x: at.toFixed(2), width: (100 / n * .4).toFixed(2),
        y: Math.min(height(v), zero), height: Math.max(.6, Math.abs(height(v) - zero)).toFixed(1)});
      for (let i = 0; i < n; ++i) {
        if (Number.isFinite(o[i])) shapes.push(bar('original', o[i], 100 / n * (i + .08)));
        if (Number.isFinite(x[i])) shapes.push(bar('changed', x[i], 100 / n * (i + .52)));
      }
    } else {
      for (const [name, values] of [['original', o], ['changed', x]]) {
        const points = values.map((v, i) => (100 * i / (n - 1)).toFixed(2) + ',' + height(v)).join(' ');
        shapes.push(draw('polyline', {class: 'curve ' + name, points, 'vector-effect': 'non-scaling-stroke'}));
      }
    }
    return make('div', {},
      draw('svg', {class: 'series', viewBox: '0 0 100 60', preserveAspectRatio: 'none', role: 'img',
        'aria-label': 'inputs of ' + finding.id + ', the changed ones in numbers below'}, ...shapes),
      make('p', {class: 'quiet'}, make('span', {class: 'key-original'}, '■ '), finding.p ? 'first run  ' : 'original  ',
        make('span', {class: 'key-changed'}, '■ '), finding.p ? 'second run' : 'counterexample'));
  }

  function numbers(finding, rows, head) {
    const labels = finding.p ? [head, 'first', 'second'] : [head, 'before', 'after'];
    return make('table', {}, make('thead', {}, make('tr', {}, ...labels.map((label, i) =>
      make('th', {scope: 'col', class: i > 0 && 'number'}, label)))),
    make('tbody', {}, ...rows.map(row => make('tr', {}, make('th', {scope: 'row'}, row[0]),
      make('td', {class: 'number'}, text(row[1])), make('td', {class: 'number'}, text(row[2]))))));
  }

  function outputs(finding) {
    return make('details', {}, make('summary', {}, finding.p ? 'Outputs of both runs' : 'Outputs before and after'),
      numbers(finding, finding.y, 'output'));
  }

  async function copy(event) {
    const button = event.currentTarget, code = button.previousElementSibling;
    let done = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {  // a page of a file may not: select it, so that Ctrl-C does
      getSelection().selectAllChildren(code);
      done = document.execCommand('copy');
    }
    button.textContent = done ? 'Copied' : 'Press Ctrl-C';
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  }

  const instances = new Map(data.instances.map(row => [row[0], row]));

  function card(index) {
    const finding = data.findings[index], row = instances.get(finding.i);
    const place = row ? row[1] + (data.models.length > 1 ? ' · ' + data.models[row[2]] : '') : one + ' ' + finding.i;
    const norms = finding.l && plural(finding.l[0], 'input', 'inputs') + ' of ' + finding.l[1] +
      (finding.p ? ' differ' : ' changed') + ', by ' + finding.l[2] + ' at most, L2 ' + finding.l[3];
    return make('article', {class: 'card', 'aria-label': 'finding ' + finding.id},
      make('p', {class: 'verdict'}, finding.c ? finding.c[0] + ' → ' + finding.c[1] : finding.w),
      make('p', {class: 'quiet'}, place),
      finding.g ? images(finding) : null,
      finding.o ? series(finding) : null,
      finding.f ? numbers(finding, finding.f, 'input') : null,
      make('p', {}, 'margin ' + (finding.m === null ? 'not finite' : finding.m) + (finding.u ? ', by ' + finding.u : '')),
      norms ? make('p', {class: 'quiet'}, norms) : null,
      ...(finding.n || []).map(note => make('p', {}, note)),
      finding.y ? outputs(finding) : null,
      make('div', {class: 'replay'}, make('code', {}, finding.r),
        make('button', {type: 'button', onclick: copy, 'aria-label': 'Copy the replay line of ' + finding.id}, 'Copy')));
  }

  // Fills `place` with what `maker` makes of items, `step` at a time, with a button after `beside`.
  function paged(place, beside, items, first, step, maker, many) {
    const more = make('button', {type: 'button'}), line = make('p', {}, more);
    let shown = 0;
    const show = count => {
      const added = items.slice(shown, shown + count).map(maker);
      place.append(...added);
      shown += added.length;
      const left = items.length - shown;
      more.textContent = 'Show ' + Math.min(step, left) + ' more of ' + left + ' ' + many;
      if (left === 0) line.remove();
      return added;
    };
    show(first);
    if (shown < items.length) beside.after(line);
    more.addEventListener('click', () => {
      const [added] = show(step);
      added.tabIndex = -1;
      added.focus({preventScroll: true});
    });
    return line;
  }

  // --- the gallery -------------------------------------------------------------------------------

  const gallery = document.getElementById('gallery');

  function group(cluster) {
    const cards = make('div', {class: 'cards'});
    const head = make('div', {class: 'group-head'},
      cluster.d === null ? null : make('img', {src: data.pictures[cluster.d], alt: 'mean change', title: 'mean change'}),
      make('div', {}, make('h3', {}, cluster.t), make('p', {class: 'quiet'}, cluster.k + ': ' +
        plural(cluster.f.length, 'finding', 'findings') + ' on ' + plural(cluster.i, one, noun))));
    const out = make('div', {class: 'group'}, head, cards);
    paged(cards, cards, cluster.f, 4, 24, card, 'findings of this group');
    return out;
  }

  function show_all() {
    gallery.replaceChildren();
    const groups = make('div', {});
    gallery.append(groups);
    paged(groups, groups, data.clusters, 8, 16, group, 'groups');
  }

  function show_instance(row) {
    const own = [], cards = make('div', {class: 'cards'});
    data.findings.forEach((finding, i) => { if (finding.i === row[0]) own.push(i); });
    const back = make('button', {type: 'button', onclick: () => { show_all(); gallery.scrollIntoView(); }}, 'Show all findings');
    gallery.replaceChildren(make('div', {class: 'tools'}, make('h3', {}, row[1]), back), cards);
    paged(cards, cards, own, 24, 48, card, 'findings');
    gallery.scrollIntoView();
    back.focus({preventScroll: true});
  }

  if (gallery) show_all();

  // --- the table ---------------------------------------------------------------------------------

  const COLUMNS = [  // title, value to sort by and to show, numeric
    [one, row => row[1], false],
    ['model', row => data.models[row[2]], false],
    ['findings', row => row[3], true],
    ['best margin', row => row[4], true],
    ['candidates', row => row[5], true],
    ['first after, s', row => row[6], true],
  ].filter(([, value], i) => i < 3 || data.instances.some(row => value(row) !== null));

  function instance_row(row) {
    return make('tr', {}, ...COLUMNS.map(([title, value, numeric]) => {
      const shown = text(value(row));
      if (title === one) return make('th', {scope: 'row'}, shown);
      if (title !== 'findings') return make('td', {class: numeric && 'number'}, shown);
      return make('td', {class: 'number'}, row[3] > 0 ? make('button', {type: 'button', onclick: () => show_instance(row),
        'aria-label': 'Show ' + plural(row[3], 'finding', 'findings') + ' of ' + row[1]}, shown) : shown);
    }));
  }

  const rows = data.instances.slice(), body = make('tbody', {}), status = make('p', {class: 'quiet', role: 'status'});
  let order = null, down = false, wanted = '', pager = null;

  function fill_table() {
    const found = rows.filter(row => !wanted || (row[1] + ' ' + data.models[row[2]]).toLowerCase().includes(wanted));
    if (order) {
      const sign = down ? -1 : 1, [, value, numeric] = order;
      const key = row => { const v = value(row); return numeric && typeof v !== 'number' ? null : v; };
      found.sort((a, b) => {  // what has no value comes last either way
        const u = key(a), v = key(b);
        if (u === null || v === null) return (u === null) - (v === null);
        return sign * (numeric ? u - v : u.localeCompare(v, 'en', {numeric: true}));
      });
    }
    body.replaceChildren();
    if (pager) pager.remove();
    pager = paged(body, table, found, 20, 500, instance_row, noun);
    status.textContent = wanted ? plural(found.length, one, noun) + ' of ' + rows.length : '';
  }

  const heads = COLUMNS.map(column => {
    const head = make('th', {scope: 'col', class: column[2] && 'number'});
    head.append(make('button', {type: 'button', onclick: () => {
      down = order === column && !down;
      order = column;
      heads.forEach(each => each.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      heads.forEach(each => { each.firstChild.lastChild.textContent = each === head ? (down ? ' ▾' : ' ▴') : ''; });
      fill_table();
    }}, column[0], make('span', {'aria-hidden': 'true'}, '')));
    return head;
  });
  const table = make('div', {class: 'table', tabindex: '0', role: 'region', 'aria-label': 'table of ' + noun},
    make('table', {}, make('thead', {}, make('tr', {}, ...heads)), body));
  const filter = make('input', {type: 'search', id: 'filter', autocomplete: 'off',
    oninput: event => { wanted = event.target.value.trim().toLowerCase(); fill_table(); }});
  document.getElementById('instances').append(
    make('div', {class: 'tools'}, make('label', {for: 'filter'}, 'Filter by name'), filter, status), table);
  fill_table();
  document.documentElement.dataset.ready = Math.round(performance.now());
})();
