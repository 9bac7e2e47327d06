/** A provider that knows one answer: the same bytes to every request, after a delay. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

export const upstream = (delayMs: number, answer: string): void => {
  const body = Buffer.from(answer)
  const server = createServer((request, response) => {
    request.resume()
    const say = () =>
      response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body)
    request.on("end", () => (delayMs === 0 ? say() : setTimeout(say, delayMs)))
  })
  server.keepAliveTimeout = 600_000
  server.listen(0, "127.0.0.1", 4096, () =>
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }))
  )
}
