/** An agent as it may stand in any product: it knows a base URL, a key and a model, and nothing of training. */
export const supportAgent = async (
  { baseUrl, model, secret }: { readonly baseUrl: string; readonly model: string; readonly secret: string },
  ticket: string
): Promise<string> => {
  const answer = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({
      model,
      messages: [
        { role: "system", content: "Answer with one word: refund or decline." },
        { role: "user", content: ticket }
      ]
    })
  })
  const { choices } = (await answer.json()) as {
    readonly choices: ReadonlyArray<{ readonly message: { readonly content: string } }>
  }
  return choices[0]!.message.content
}
