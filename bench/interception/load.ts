/**
 * Many agents at once, over plain sockets, so that what they cost is little beside what they measure. Each holds one
 * connection and one conversation, which grows by a question and an answer a turn and begins anew after eight.
 */
import { request as ask } from "node:http"
import { connect } from "node:net"
import { performance } from "node:perf_hooks"

export interface Load {
  /** where rollouts are opened; none to ask the provider itself */
  readonly control: string | undefined
  readonly provider: string
  readonly agents: number
  readonly requests: number
  /** what the provider answers */
  readonly content: string
}

/** In milliseconds, and requests per second. */
export interface Measured {
  readonly p50: number
  readonly p99: number
  readonly rate: number
  /** milliseconds of processor time that the server took for a request */
  readonly cpu: number
  readonly failures: number
}

const turns = 8
const filler = "The harbour lies still in the morning, and somebody counts the boats. ".repeat(4)

const get = (url: string): Promise<string> =>
  new Promise((resolve, reject) => {
    ask(url, (response) => {
      let text = ""
      response.on("data", (part) => {
        text += part
      })
      response.on("end", () => resolve(text))
    })
      .on("error", reject)
      .end()
  })

interface Endpoint {
  readonly baseUrl: string
  readonly secret: string
}

/** One connection on which one request runs at a time; gives the status of each. */
const connection = (port: number) =>
  new Promise<(bytes: Buffer) => Promise<number>>((resolve, reject) => {
    const socket = connect(port, "127.0.0.1")
    socket.setNoDelay(true)
    let parts: Array<Buffer> = []
    let size = 0
    let need = -1
    let status = 0
    let answered: (status: number) => void = () => {}
    socket.on("error", reject)
    socket.on("close", () => answered(0))
    socket.on("data", (part) => {
      parts.push(part)
      size += part.length
      if (need < 0) {
        const text = Buffer.concat(parts).toString("latin1")
        const end = text.indexOf("\r\n\r\n")
        if (end < 0) return
        status = Number(text.slice(9, 12))
        need = end + 4 + Number(/content-length: (\d+)/i.exec(text)![1])
      }
      if (size < need) return
      parts = []
      size = 0
      need = -1
      answered(status)
    })
    socket.on("connect", () =>
      resolve((bytes) => {
        const done = new Promise<number>((give) => {
          answered = give
        })
        socket.write(bytes)
        return done
      })
    )
  })

export const load = async ({ agents, content, control, provider, requests }: Load): Promise<Measured> => {
  const times = new Float64Array(requests)
  let begun = 0
  let ended = 0
  let failures = 0
  const answer = `,{"role":"assistant","content":${JSON.stringify(content)}}`

  const agent = async (index: number) => {
    let endpoint: Endpoint = { baseUrl: `${provider}/v1`, secret: "none" }
    let send: ((bytes: Buffer) => Promise<number>) | undefined
    let conversation = 0
    while (begun < requests) {
      if (control !== undefined) {
        endpoint = JSON.parse(await get(`${control}/open/${conversation === 0 ? "" : endpoint.secret}`))
      }
      const { pathname, port } = new URL(endpoint.baseUrl)
      send ??= await connection(Number(port))
      const head = `POST ${pathname}/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${endpoint.secret}\r\ncontent-type: application/json\r\ncontent-length: `
      let messages = `{"role":"system","content":"You answer in one sentence. ${filler}"}`
      for (let turn = 0; turn < turns && begun < requests; turn++) {
        begun++
        messages += `,{"role":"user","content":"${index} ${conversation} ${turn}: ${filler}"}`
        const body = Buffer.from(`{"model":"policy","temperature":0.7,"messages":[${messages}]}`)
        const started = performance.now()
        const status = await send(Buffer.concat([Buffer.from(`${head}${body.length}\r\n\r\n`), body]))
        times[ended++] = performance.now() - started
        if (status !== 200) failures++
        messages += answer
      }
      conversation++
    }
    if (control !== undefined) await get(`${control}/close/${endpoint.secret}`)
  }

  const cpu = async () =>
    control === undefined ? 0 : (JSON.parse(await get(`${control}/cpu`)) as { readonly seconds: number }).seconds
  const before = await cpu()
  const started = performance.now()
  await Promise.all(Array.from({ length: agents }, (_, index) => agent(index)))
  const seconds = (performance.now() - started) / 1000
  const spent = (await cpu()) - before
  const sorted = times.subarray(0, ended).toSorted()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
  return { p50: at(0.5), p99: at(0.99), rate: ended / seconds, cpu: (spent / ended) * 1000, failures }
}
