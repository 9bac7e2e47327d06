throw new TypeError("the model card is missing")
