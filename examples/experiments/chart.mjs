// A drawing of curves as SVG, from numbers alone: readable on a light page and on a dark one.
const [width, height, left, right, top, bottom] = [640, 360, 48, 150, 36, 40]
const style = `
  text { font: 12px system-ui, sans-serif; fill: #333 }
  .title { font-size: 14px; font-weight: 600 }
  .grid { stroke: #8884; stroke-width: 1 }
  .goal { stroke: #888; stroke-width: 1.5; stroke-dasharray: 5 4 }
  path { fill: none; stroke-linejoin: round }
  .mean { stroke-width: 2.5 } .seed { stroke-width: 1; opacity: 0.4 }
  .c0 { stroke: #0969da } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 } .c3 { stroke: #8250df }
  .n0 { fill: #0969da } .n1 { fill: #bc4c00 } .n2 { fill: #1a7f37 } .n3 { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    text { fill: #ccc }
    .c0 { stroke: #58a6ff } .c1 { stroke: #f0883e } .c2 { stroke: #56d364 } .c3 { stroke: #bc8cff }
    .n0 { fill: #58a6ff } .n1 { fill: #f0883e } .n2 { fill: #56d364 } .n3 { fill: #bc8cff }
  }`

/** Mean at the steps that every curve has. */
export const meanOf = (curves) =>
  curves[0].flatMap(([step]) => {
    const values = curves.map((curve) => curve.find(([other]) => other === step)?.[1])
    return values.includes(undefined) ? [] : [[step, values.reduce((sum, value) => sum + value, 0) / values.length]]
  })

/** Lines are `{ name, curves }`, a curve being `[step, value in 0 to 1]` of one seed; `goal` is a value to reach. */
export const chart = ({ title, lines, goal, steps }) => {
  const last = steps ?? Math.max(...lines.flatMap(({ curves }) => curves.flatMap((curve) => curve.at(-1)[0])))
  const x = (step) => (left + (step / last) * (width - left - right)).toFixed(1)
  const y = (value) => (height - bottom - value * (height - top - bottom)).toFixed(1)
  const path = (curve, name) =>
    `<path class="${name}" d="M${curve.map(([step, value]) => `${x(step)} ${y(value)}`).join("L")}"/>`
  const level = (value, name) =>
    `<line class="${name}" x1="${left}" x2="${width - right}" y1="${y(value)}" y2="${y(value)}"/>`
  const ends = lines.map(({ curves, name }, index) => ({ name, index, mean: meanOf(curves) }))
  // names stand beside the ends of their curves, and not on each other
  let above = Number.NEGATIVE_INFINITY
  const labels = ends
    .toSorted((a, b) => b.mean.at(-1)[1] - a.mean.at(-1)[1])
    .map(({ index, mean, name }) => {
      above = Math.max(Number(y(mean.at(-1)[1])) + 4, above + 16)
      return `<text class="n${index}" x="${width - right + 8}" y="${above.toFixed(1)}">${name}</text>`
    })
  const at = [0, 0.25, 0.5, 0.75, 1]
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${title}</title>`,
    `<style>${style}\n</style>`,
    `<text class="title" x="${left}" y="20">${title}</text>`,
    ...at.map((value) => level(value, "grid")),
    ...at.map((value) => `<text x="${left - 8}" y="${Number(y(value)) + 4}" text-anchor="end">${value}</text>`),
    ...at
      .map((share) => Math.round(share * last))
      .map((step) => `<text x="${x(step)}" y="${height - bottom + 18}" text-anchor="middle">${step}</text>`),
    `<text x="${(left + width - right) / 2}" y="${height - 6}" text-anchor="middle">step</text>`,
    ...(goal === undefined ? [] : [level(goal, "goal")]),
    ...lines.flatMap(({ curves }, index) => curves.map((curve) => path(curve, `c${index} seed`))),
    ...ends.map(({ index, mean }) => path(mean, `c${index} mean`)),
    ...labels,
    "</svg>"
  ]
  return `${parts.join("\n")}\n`
}
