/** Keeps what the options say: whole messages, or tokens of them. */
export default ({ message, tokenIds }, { id }, { answers }) => {
  const answer = answers[id] ?? answers[message.role]
  return answer === "firstBodyToken" ? Array.from(tokenIds, (_, i) => i === 1) : answer
}
